"""Figures (matplotlib, without a display): each takes numbers and returns a figure; `save` writes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc

from ..arrays import FloatArray
from ..calibration import threshold_at_tpr
from ..evaluation import Evaluation

ID_COLOUR, OOD_COLOUR, INK, QUIET = "#2f6fb0", "#d9822b", "#222222", "#8a8a8a"
_BINS = 60


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG beside each other; returns the paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=160, bbox_inches="tight", facecolor="white")
    return paths


def score_histograms(evaluation: Evaluation, *, detectors: Sequence[str] | None = None, title: str) -> Figure:
    """ID against OOD: a row a detector, a column an OOD set, with the threshold that accepts 95 % of ID."""
    names = list(detectors or evaluation.metrics)
    sets = evaluation.ood_names
    figure = Figure(figsize=(2.9 * len(sets) + 0.6, 1.75 * len(names) + 0.7), layout="constrained")
    grid = figure.subplots(len(names), len(sets), sharex="row", squeeze=False)
    for row, name in zip(grid, names, strict=True):
        everything = np.concatenate([evaluation.id_scores[name], *evaluation.ood_scores[name].values()])
        # A few far outliers must not squeeze the rest into two bins.
        low, high = (float(np.quantile(everything, share)) for share in (0.002, 0.998))
        edges = [low + (high - low) * step / _BINS for step in range(_BINS + 1)]
        for panel, ood in zip(row, sets, strict=True):
            _draw_histogram(panel, evaluation, name, ood, edges)
        row[0].set_ylabel(name, fontsize=10, color=INK)
    grid[0][0].legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def _draw_histogram(panel: Axes, evaluation: Evaluation, name: str, ood: str, edges: list[float]) -> None:
    id_scores, ood_scores = evaluation.id_scores[name], evaluation.ood_scores[name][ood]
    for scores, colour, label in ((id_scores, ID_COLOUR, "ID"), (ood_scores, OOD_COLOUR, "OOD")):
        shown = np.clip(scores, edges[0], edges[-1])
        panel.hist(shown, edges, density=True, color=colour, alpha=0.65, label=label, histtype="stepfilled")
    panel.axvline(threshold_at_tpr(id_scores), color=INK, linewidth=1, linestyle="--")
    cell = evaluation.metrics[name][ood]
    panel.set_title(
        f"{ood}: FPR95 {100 * cell.fpr95:.1f}, AUROC {100 * cell.auroc:.1f}", fontsize=8, color=INK
    )
    panel.set_yticks([])
    panel.tick_params(labelsize=7)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


@dataclass(frozen=True)
class TriangleView:
    """One sample's deciding triangle, in the plane of the boundary's normal and the rest."""

    title: str
    angle: float
    distance: float
    centre_distance: float
    height: float
    image: FloatArray | None = None


def triangles(views: Sequence[TriangleView]) -> Figure:
    """The paper's first figure from real numbers: centre, feature, projection, boundary and angle."""
    figure = Figure(figsize=(4.6 * len(views), 4.2), layout="constrained")
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    for panel, view in zip(panels, views, strict=True):
        _draw_triangle(panel, view)
    return figure


def _draw_triangle(panel: Axes, view: TriangleView) -> None:
    """The boundary is drawn upright; to its left the predicted class."""
    feature = np.array([view.centre_distance - view.distance, view.height])
    projection = np.array([view.centre_distance, view.height])
    span = max(float(np.abs([feature, projection]).max()), 1e-9)
    panel.axvline(projection[0], color=INK, linewidth=1.5)
    for point in (feature, projection):
        panel.plot([0, point[0]], [0, point[1]], color=QUIET, linewidth=1.2)
    panel.plot(*zip(feature, projection, strict=True), color=QUIET, linewidth=1.2, linestyle=":")
    towards = [math.degrees(math.atan2(y, x)) for x, y in (projection, feature)]
    size = 0.45 * float(np.hypot(*feature))
    panel.add_patch(Arc((0, 0), size, size, theta1=min(towards), theta2=max(towards), color=OOD_COLOUR, lw=2))
    middle = math.radians(sum(towards) / 2)
    panel.annotate(
        f"θ = {math.degrees(view.angle):.1f}°",
        (0.34 * size * 1.9 * math.cos(middle), 0.34 * size * 1.9 * math.sin(middle)),
        color=OOD_COLOUR,
        fontsize=11,
        ha="center",
    )
    for point, name, colour, offset in (
        (np.zeros(2), "μ", INK, (8, -14)),
        (feature, "z", ID_COLOUR, (-4, 8)),
        (projection, "z_db", INK, (6, 6)),
    ):
        panel.plot(*point, marker="o", markersize=6, color=colour)
        panel.annotate(
            name, (point[0], point[1]), xytext=offset, textcoords="offset points", fontsize=11, color=colour
        )
    panel.set_title(view.title, fontsize=10, color=INK)
    panel.set_aspect("equal")
    panel.margins(0.25)
    panel.set_ylim(-0.15 * span, 1.25 * span)
    panel.set_xlabel("along the boundary's normal")
    panel.set_ylabel("within the boundary")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    if view.image is not None:
        inset = panel.inset_axes((0.02, 0.02, 0.2, 0.2))
        inset.imshow(view.image, cmap="gray", vmin=0, vmax=1)
        inset.set_xticks([])
        inset.set_yticks([])
