"""The two drawings of an explanation: the triangle to scale, and the score among the calibration scores."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Arc, Wedge
from matplotlib.ticker import MaxNLocator

from ...guard import Explanation
from ...guard.explanation import Geometry, IdAngles, PlaneTriangle
from .style import ID_COLOUR, INK, OOD_COLOUR, QUIET, plain

_LETTERS = 24
# A score further from the others than so many times their span is shown by an arrow at the edge.
_FAR = 1.0


def readable(text: str, letters: int) -> str:
    """A name on one line, cut to so many letters, without what no font can draw."""
    drawn = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return drawn if len(drawn) <= letters else f"{drawn[: letters - 1].rstrip()}…"


def named(class_name: str) -> str:
    """A class by its name; one without a name is known by its number."""
    return f"class {class_name}" if class_name.isdecimal() else class_name


def draw_triangle(panel: Axes, geometry: Geometry, colour: str, inches: tuple[float, float]) -> None:
    """μ at the bottom, the boundary upright, to its left the predicted class; shaded where ID samples stand.

    The shaded sector is turned from the ray to z_db as ID samples are turned from theirs: 5 to 95 % of them.
    """
    seen = geometry.triangle
    assert seen is not None
    scale = _limits(panel, seen, inches)
    bottom, top = panel.get_ylim()
    ray = math.degrees(math.atan2(seen.projection[1], seen.projection[0]))
    length = math.hypot(*seen.feature)
    if geometry.id_angles is not None:
        _draw_sector(panel, geometry.id_angles, ray, max(length, math.hypot(*seen.projection)))
    line = seen.projection[0]
    panel.plot([line, line], [bottom, top - 0.3 * scale], color=INK, linewidth=1.5)
    for point in (seen.feature, seen.projection):
        panel.plot([0, point[0]], [0, point[1]], color=QUIET, linewidth=1.2)
    ends = zip(seen.feature, seen.projection, strict=True)
    panel.plot(*ends, color=QUIET, linewidth=1.2, linestyle=":")
    reach = 0.9 * length
    panel.add_patch(Arc((0, 0), reach, reach, theta1=ray, theta2=ray + seen.angle, color=colour, lw=2.2))
    towards = math.radians(ray)
    # Beside the ray to z_db, and clear of the boundary.
    place = (max(0.5 * reach * math.cos(towards), line), 0.5 * reach * math.sin(towards))
    _label(panel, f"θ = {seen.angle:.1f}°", place, (10, 0), colour, ha="left", weight="bold", fontsize=11)
    for point, name, ink, offset, side in (
        ((0.0, 0.0), "μ", INK, (8, -4), "left"),
        (seen.feature, "z", colour, (-8, 3), "right"),
        (seen.projection, "z_db", INK, (8, -4), "left"),
    ):
        panel.plot(*point, marker="o", markersize=6.5, color=ink)
        _label(panel, name, point, offset, ink, ha=side, fontsize=11)
    for name, shift, side in ((geometry.name, -6, "right"), (seen.name, 6, "left")):
        short = readable(named(name), _LETTERS)
        _label(panel, short, (line, top - 0.24 * scale), (shift, 0), INK, ha=side, fontsize=8.5)
    panel.set_axis_off()


def _limits(panel: Axes, seen: PlaneTriangle, inches: tuple[float, float]) -> float:
    """Axes of one scale that hold the triangle, with room for names above; returns the units of an inch."""
    across, along = zip((0.0, 0.0), seen.feature, seen.projection, strict=True)
    width, height = max(max(across) - min(across), 1e-12), max(max(along) - min(along), 1e-12)
    # Room in inches: 0.9 at either side for letters, 0.25 below, 0.55 above for the names of the classes.
    scale = max(width / (inches[0] - 1.8), height / (inches[1] - 0.85))
    # The boundary stands where both names have room beside it.
    middle = (max(across) + min(across)) / 2
    half = inches[0] * scale / 2
    middle = min(max(middle, seen.projection[0] - 0.45 * half), seen.projection[0] + 0.2 * half)
    spare = (inches[1] - 0.85) * scale - height
    panel.set_xlim(middle - half, middle + half)
    panel.set_ylim(min(along) - 0.3 * scale - spare / 2, max(along) + 0.55 * scale + spare / 2)
    return scale


def _draw_sector(panel: Axes, angles: IdAngles, ray: float, length: float) -> None:
    turned = (ray + angles.low, ray + angles.high)
    panel.add_patch(Wedge((0, 0), 0.97 * length, *turned, color=ID_COLOUR, alpha=0.13, linewidth=0))
    middle = math.radians(ray + angles.median)
    end = (0.97 * length * math.cos(middle), 0.97 * length * math.sin(middle))
    panel.plot([0, end[0]], [0, end[1]], color=ID_COLOUR, linewidth=1, linestyle="--", alpha=0.7)
    said = (
        f"shaded: 5 to 95 %\nof {angles.count:,} ID angles,\n"
        f"{angles.low:.1f}° to {angles.high:.1f}°, median {angles.median:.1f}°"
    )
    panel.text(0, 0, said, transform=panel.transAxes, fontsize=7.5, color=ID_COLOUR, va="bottom", ha="left")


def _label(
    panel: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], colour: str, **style: object
) -> None:
    panel.annotate(
        text,
        at,
        xytext=offset,
        textcoords="offset points",
        color=colour,
        va="center",
        annotation_clip=False,
        **style,  # type: ignore[arg-type]
    )


def draw_scores(panel: Axes, told: Explanation, colour: str) -> None:
    """The calibration scores as a histogram, flagged scores shaded, and the sample's own as a line."""
    drawn = told.geometry is not None and told.geometry.triangle is not None
    angle = drawn and told.geometry.triangle.decides  # type: ignore[union-attr]
    unit = math.degrees(1) if angle else 1.0
    edges = unit * np.array(told.calibration.edges)
    span = edges[-1] - edges[0]
    low, high = edges[0], edges[-1]
    score = None if told.score is None else unit * told.score
    if score is not None:
        low, high = max(min(low, score), low - _FAR * span), min(max(high, score), high + _FAR * span)
    low, high = low - 0.03 * span, high + 0.03 * span
    panel.stairs(told.calibration.counts, edges, fill=True, color=ID_COLOUR, alpha=0.6)
    tallest = max(told.calibration.counts)
    name = f"{told.score_title}, angle in degrees" if angle else told.score_title
    if told.threshold is not None:
        limit = unit * told.threshold
        panel.plot([limit, limit], [0, 1.1 * tallest], color=INK, linewidth=1, linestyle="--")
        panel.axvspan(low, limit, color=OOD_COLOUR, alpha=0.12, linewidth=0)
        name += f" (shaded: flagged, below {limit:.3g})"
    panel.set_xlim(low, high)
    panel.set_ylim(0, 1.32 * tallest)
    if score is not None:
        _draw_own(panel, min(max(score, low), high), score, colour, (low, high), tallest)
    panel.set_yticks([])
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.set_xlabel(name, fontsize=8, color=INK)
    plain(panel, "top", "right", "left")


def _draw_own(
    panel: Axes, place: float, score: float, colour: str, limits: tuple[float, float], tallest: int
) -> None:
    """The sample's score, by an arrow where it lies beyond the axis."""
    left = place < sum(limits) / 2
    panel.plot([place, place], [0, 1.12 * tallest], color=colour, linewidth=2.2, clip_on=False)
    panel.annotate(
        ("◀ " if score < place else "") + f"this one {score:#.3g}" + (" ▶" if score > place else ""),
        (place, 1.2 * tallest),
        xytext=(-2 if left else 2, 0),
        textcoords="offset points",
        ha="left" if left else "right",
        va="center",
        fontsize=8.5,
        weight="bold",
        color=colour,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
