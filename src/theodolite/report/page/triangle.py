"""The triangle of a sample as a small drawing: where its lines and letters stand, in units of the drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...benchmarks.telling import Triangle
from ..figures.triangle import corners

Point: TypeAlias = tuple[float, float]
WIDTH, HEIGHT, _EDGE = 120, 96, 13


@dataclass(frozen=True)
class Drawing:
    """Centre μ, feature z and its projection on the boundary, to scale, and where their letters stand."""

    centre: Point
    feature: Point
    projection: Point
    arc: str
    letters: Mapping[str, Point]
    degrees: str
    width: int = WIDTH
    height: int = HEIGHT


def drawing(triangle: Triangle) -> Drawing | None:
    """The boundary upright, the predicted class to its left; None where a side is not finite."""
    points = corners(triangle)
    if not all(math.isfinite(part) for part in (triangle.angle, *points.feature, *points.projection)):
        return None
    left, right = (end(x for x, _ in points) for end in (min, max))
    scale = min(
        (WIDTH - 2 * _EDGE) / max(right - left, 1e-12),
        (HEIGHT - 2 * _EDGE) / max(triangle.height, 1e-12),
        1e9,
    )
    shift = (WIDTH - scale * (right - left)) / 2 - scale * left
    drop = (HEIGHT + scale * triangle.height) / 2
    centre, feature, projection = ((shift + scale * x, drop - scale * y) for x, y in points)
    return Drawing(
        centre=_rounded(centre),
        feature=_rounded(feature),
        projection=_rounded(projection),
        arc=_arc(centre, feature, projection),
        letters={
            "μ": _rounded((centre[0] + (7 if centre[0] >= projection[0] else -7), centre[1] + 9)),
            "z": _rounded((feature[0], feature[1] - 5.5)),
        },
        degrees=degrees(triangle),
    )


def degrees(triangle: Triangle) -> str:
    """The angle at the centre as it is printed."""
    return f"{math.degrees(triangle.angle):.1f}"


def _rounded(point: Point) -> Point:
    return round(point[0], 1), round(point[1], 1)


def _arc(centre: Point, feature: Point, projection: Point) -> str:
    """From the feature's direction to the projection's, clockwise on the screen, at a third of the way."""
    ends = []
    lengths = [math.dist(centre, point) for point in (feature, projection)]
    radius = max(min(0.4 * min(lengths), 22.0), 0.1)
    for point, length in zip((feature, projection), lengths, strict=True):
        share = radius / max(length, 1e-9)
        ends.append(tuple(c + share * (p - c) for c, p in zip(centre, point, strict=True)))
    (ax, ay), (bx, by) = ends
    return f"M{ax:.1f} {ay:.1f}A{radius:.1f} {radius:.1f} 0 0 1 {bx:.1f} {by:.1f}"
