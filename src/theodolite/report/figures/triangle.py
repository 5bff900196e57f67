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

# How far the protractor reaches, in degrees.
_PROTRACTOR = 90


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
    """The paper's first figure from real numbers: centre, feature, projection, boundary and angle.

    One scale for both directions and for all panels: angles are drawn as they are, and lengths compare. A
    protractor at μ, from the direction of z_db on, makes them readable.
    """
    points = np.array([point for view in views for point in corners(view)])
    low, high = points.min(axis=0), points.max(axis=0)
    reach = max(float((high - low).max()), 1e-9)
    window = (low - (0.28, 0.16) * np.array(reach), high + (0.2, 0.16) * np.array(reach))
    width, height = window[1] - window[0]
    figure = Figure(figsize=(4.6 * len(views), 4.6 * min(height / width, 1.6) + 0.6), layout="constrained")
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    # One radius, for the same reason; it ends before the nearest feature.
    lengths = [math.hypot(*corners(view).feature) for view in views]
    radius = min(0.34 * reach, max(0.8 * min(lengths), 0.1 * reach))
    for panel, view in zip(panels, views, strict=True):
        panel.set_xlim(window[0][0], window[1][0])
        panel.set_ylim(window[0][1], window[1][1])
        panel.set_aspect("equal")
        _draw_triangle(panel, view, radius)
    return figure


def _draw_triangle(panel: Axes, view: TriangleView, radius: float) -> None:
    _, feature, projection = (np.array(corner) for corner in corners(view))
    panel.axvline(projection[0], color=INK, linewidth=1.5)
    for point in (feature, projection):
        panel.plot([0, point[0]], [0, point[1]], color=QUIET, linewidth=1.2)
    panel.plot(*zip(feature, projection, strict=True), color=QUIET, linewidth=1.2, linestyle=":")
    start, end = (math.degrees(math.atan2(y, x)) for x, y in (projection, feature))
    _protractor(panel, start, radius)
    panel.add_patch(
        Arc(
            (0, 0),
            2 * radius,
            2 * radius,
            theta1=min(start, end),
            theta2=max(start, end),
            color=OOD_COLOUR,
            lw=2,
        )
    )
    panel.annotate(
        f"θ = {math.degrees(view.angle):.1f}°",
        (0, 0),
        xytext=(-12, -18),
        textcoords="offset points",
        color=OOD_COLOUR,
        fontsize=12,
        ha="right",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
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
    panel.set_xlabel("along the boundary's normal")
    panel.set_ylabel("within the boundary")
    plain(panel, "top", "right")
    if view.image is not None:
        inset = panel.inset_axes((0.02, 0.02, 0.2, 0.2))
        inset.imshow(view.image, cmap="gray", vmin=0, vmax=1)
        inset.set_xticks([])
        inset.set_yticks([])


def _protractor(panel: Axes, start: float, radius: float) -> None:
    """Ticks every ten degrees from the direction of the projection on, every third with its number."""
    panel.add_patch(
        Arc((0, 0), 2 * radius, 2 * radius, theta1=start, theta2=start + _PROTRACTOR, color=QUIET, lw=0.6)
    )
    for turned in range(0, _PROTRACTOR + 1, 10):
        named = turned % 30 == 0
        towards = np.array([math.cos(math.radians(start + turned)), math.sin(math.radians(start + turned))])
        ends = radius * np.outer([1.0, 1.06 if named else 1.03], towards)
        panel.plot(ends[:, 0], ends[:, 1], color=QUIET, linewidth=0.8)
        if named and turned:
            panel.annotate(
                f"{turned}°",
                tuple(1.13 * radius * towards),
                fontsize=7,
                color=QUIET,
                ha="center",
                va="center",
            )
