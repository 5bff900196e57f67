"""ROC curves: the share of ID accepted over the share of OOD accepted, as the threshold falls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ...core.arrays import FloatArray
from ...evaluation import Curve, Evaluation
from ...evaluation.metrics import AUROC
from .style import DASHES, INK, LINES, QUIET, panels, plain

_STEPS = 250


def roc_points(id_scores: FloatArray, ood_scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(FPR, TPR) at every distinct score, from nothing accepted to everything accepted."""
    curve = Curve.of(id_scores, ood_scores)
    tpr, fpr = (np.concatenate([[0.0], counts.cumsum() / counts.sum()]) for counts in curve)
    return fpr, tpr


def _thinned(fpr: FloatArray, tpr: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The points that a reader could tell apart: one a step along the curve, both ends kept."""
    steps = np.floor((fpr + tpr) * _STEPS)
    kept = np.flatnonzero(np.diff(steps, prepend=-1) > 0)
    kept = np.union1d(kept, [0, len(fpr) - 1])
    return fpr[kept], tpr[kept]


def roc_curves(
    evaluation: Evaluation,
    *,
    detectors: Sequence[str] | None = None,
    highlight: Sequence[str] = ("ORA",),
    title: str,
) -> Figure:
    """A panel an OOD set. Coloured: ``highlight`` and the best by average AUROC; the others stay grey."""
    names = list(detectors or evaluation.metrics)
    sets = evaluation.ood_names
    figure, grid = panels(
        1,
        len(sets),
        size=(2.9, 2.9),
        gap=(0.3, 0.3),
        margin=(0.6, 0.2, 0.55, 0.7),
        title=title,
        sharey=True,
    )
    ranked = sorted(names, key=lambda name: -evaluation.average(name, AUROC.name))
    kept = [name for name in highlight if name in names]
    kept += [name for name in ranked if name not in kept][: len(LINES) - len(kept)]
    for panel, ood in zip(grid[0], sets, strict=True):
        for name in sorted(ranked, key=lambda name: name in kept):
            fpr, tpr = _thinned(*roc_points(evaluation.id_scores[name], evaluation.ood_scores[name][ood]))
            if name not in kept:
                panel.plot(fpr, tpr, color=QUIET, linewidth=0.7, alpha=0.45)
                continue
            place = kept.index(name)
            label = f"{name} {100 * evaluation.metrics[name][ood][AUROC.name]:.1f}"
            panel.plot(fpr, tpr, color=LINES[place], linestyle=DASHES[place], linewidth=1.5, label=label)
        panel.plot([0, 1], [0, 1], color=QUIET, linewidth=0.6, linestyle=":")
        panel.set_title(ood, fontsize=10, color=INK)
        panel.set_xlim(-0.01, 1.0)
        panel.set_ylim(0.0, 1.01)
        panel.set_xlabel("OOD accepted (FPR)", fontsize=9, color=INK)
        legend = panel.legend(fontsize=8, frameon=False, loc="lower right", title=AUROC.title)
        legend.get_title().set_fontsize(8)
        plain(panel, "top", "right")
    grid[0][0].set_ylabel("ID accepted (TPR)", fontsize=9, color=INK)
    return figure
