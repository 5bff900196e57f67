"""ID against OOD score histograms, with the threshold that accepts 95 % of ID."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...core.arrays import FloatArray
from ...evaluation import Evaluation, list_metrics, threshold_at_tpr
from .style import ID_COLOUR, INK, OOD_COLOUR, panels, plain

BINS = 60
# A few far outliers must not squeeze the rest into two bins.
SHOWN = (0.002, 0.998)
_AXIS = "score, higher = more in-distribution"


def score_histograms(evaluation: Evaluation, *, detectors: Sequence[str] | None = None, title: str) -> Figure:
    """ID against OOD: a row a detector, a column an OOD set, with the threshold that accepts 95 % of ID."""
    names = list(detectors or evaluation.metrics)
    sets = evaluation.ood_names
    figure, grid = panels(
        len(names),
        len(sets),
        size=(2.6, 1.15),
        gap=(0.25, 0.55),
        margin=(0.5, 0.2, 0.55, 0.68),
        title=title,
        sharex="row",
    )
    for row, name in zip(grid, names, strict=True):
        edges = bin_edges([evaluation.id_scores[name], *evaluation.ood_scores[name].values()])
        for panel, ood in zip(row, sets, strict=True):
            _draw(panel, evaluation, name, ood, edges)
        for panel in row:
            panel.tick_params(labelbottom=True)
        row[0].set_ylabel(name, fontsize=10, color=INK, labelpad=8)
    for panel in grid[-1]:
        panel.set_xlabel(_AXIS, fontsize=8.5, color=INK)
    grid[0][0].legend(fontsize=8, frameon=False, handlelength=1.2)
    return figure


def ensemble_histograms(
    evaluation: Evaluation, *, single: str, ensemble: str, ood: Sequence[str] | None = None, title: str
) -> Figure:
    """A single model (left) against the ensemble (right), both rows of one evaluation; a row an OOD set.

    Each panel has its own axis: a sum of several models' scores lives on another scale than one of them.
    """
    sets = list(ood or evaluation.ood_names)
    figure, grid = panels(
        len(sets), 2, size=(3.4, 1.6), gap=(0.3, 0.6), margin=(0.5, 0.2, 0.55, 0.68), title=title
    )
    for row, data_set in zip(grid, sets, strict=True):
        for panel, name in zip(row, (single, ensemble), strict=True):
            scores = evaluation.id_scores[name], evaluation.ood_scores[name][data_set]
            _draw(panel, evaluation, name, data_set, bin_edges(scores))
    for panel, name in zip(grid[-1], (single, ensemble), strict=True):
        panel.set_xlabel(name, fontsize=10, color=INK)
    grid[0][0].legend(fontsize=8, frameon=False, handlelength=1.2)
    return figure


def bin_edges(scores: Sequence[FloatArray], bins: int = BINS) -> FloatArray:
    """Equal bins over all but the outermost of the finite scores; never of zero width."""
    everything = np.concatenate(list(scores))
    finite = everything[np.isfinite(everything)]
    low, high = np.quantile(finite, SHOWN) if len(finite) else (0.0, 1.0)
    if not high > low:
        reach = max(abs(low), 1.0) * 1e-3
        low, high = low - reach, high + reach
    edges: FloatArray = low + (high - low) * np.arange(bins + 1) / bins
    return edges


def _draw(panel: Axes, evaluation: Evaluation, name: str, ood: str, edges: FloatArray) -> None:
    """ID is filled, OOD outlined over a light fill: the two differ without colour."""
    id_scores, ood_scores = evaluation.id_scores[name], evaluation.ood_scores[name][ood]
    for scores, colour, label, alpha, line in (
        (id_scores, ID_COLOUR, "ID", 0.6, 0.0),
        (ood_scores, OOD_COLOUR, "OOD", 0.3, 1.3),
    ):
        counts, _ = np.histogram(np.clip(scores, edges[0], edges[-1]), edges)
        heights = counts / (len(scores) * (edges[1] - edges[0]))
        panel.stairs(heights, edges, fill=True, color=colour, alpha=alpha, label=None if line else label)
        if line:
            panel.stairs(heights, edges, color=colour, linewidth=line, label=label)
    panel.axvline(threshold_at_tpr(id_scores), color=INK, linewidth=1, linestyle="--")
    cell = evaluation.metrics[name][ood]
    shown = (f"{metric.title} {100 * cell[metric.name]:.1f}" for metric in list_metrics(tabled=True))
    panel.set_title(f"{ood}: {', '.join(shown)}", fontsize=8.5, color=INK, pad=4)
    panel.set_yticks([])
    panel.set_ylim(bottom=0)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    plain(panel, "top", "right", "left")
