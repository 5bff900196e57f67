"""The triangle of centre, feature and projection, from a real sample's numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc

from ...benchmarks.telling import Triangle
from ...core.arrays import FloatArray
from .style import ID_COLOUR, INK, OOD_COLOUR, QUIET, plain

# Angles, in radians, that leave room for their own label.
_ROOMY = 0.6


@dataclass(frozen=True, kw_only=True)
class TriangleView(Triangle):
    """One sample's deciding triangle with its title, and its picture if there is one."""

    title: str
    image: FloatArray | None = None


class Corners(NamedTuple):
    """Where a triangle's corners lie in the plane of the boundary's normal and the rest, seen from μ."""

    centre: tuple[float, float]
    feature: tuple[float, float]
    projection: tuple[float, float]


def corners(triangle: Triangle) -> Corners:
    """The boundary is upright, to its left the predicted class."""
    along, height = triangle.centre_distance, triangle.height
    return Corners((0.0, 0.0), (along - triangle.distance, height), (along, height))


def triangles(views: Sequence[TriangleView]) -> Figure:
    """The paper's first figure from real numbers: centre, feature, projection, boundary and angle."""
    figure = Figure(figsize=(4.6 * len(views), 4.2), layout="constrained")
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    for panel, view in zip(panels, views, strict=True):
        _draw_triangle(panel, view)
    return figure


def _draw_triangle(panel: Axes, view: TriangleView) -> None:
    _, feature, projection = (np.array(corner) for corner in corners(view))
    span = max(float(np.abs([feature, projection]).max()), 1e-9)
    panel.axvline(projection[0], color=INK, linewidth=1.5)
    for point in (feature, projection):
        panel.plot([0, point[0]], [0, point[1]], color=QUIET, linewidth=1.2)
    panel.plot(*zip(feature, projection, strict=True), color=QUIET, linewidth=1.2, linestyle=":")
    towards = [math.degrees(math.atan2(y, x)) for x, y in (projection, feature)]
    size = 0.45 * float(np.hypot(*feature))
    panel.add_patch(Arc((0, 0), size, size, theta1=min(towards), theta2=max(towards), color=OOD_COLOUR, lw=2))
    # Between the rays where there is room for it, else beside the feature's ray.
    roomy = view.angle > _ROOMY
    towards_label = math.radians(sum(towards) / 2 if roomy else towards[1])
    reach = 0.65 * size
    panel.annotate(
        f"θ = {math.degrees(view.angle):.1f}°",
        (reach * math.cos(towards_label), reach * math.sin(towards_label)),
        xytext=(0, 0) if roomy else (-8, -6),
        textcoords="offset points",
        color=OOD_COLOUR,
        fontsize=11,
        ha="center" if roomy else "right",
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
    plain(panel, "top", "right")
    if view.image is not None:
        inset = panel.inset_axes((0.02, 0.02, 0.2, 0.2))
        inset.imshow(view.image, cmap="gray", vmin=0, vmax=1)
        inset.set_xticks([])
        inset.set_yticks([])
