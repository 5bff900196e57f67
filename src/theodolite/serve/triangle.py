"""The triangle behind a verdict, for the page to draw: the widest angle, seen from the ID mean."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..guard import Explanation


class Sides(NamedTuple):
    """The triangle of μ, z and its projection on the boundary to class ``across``; the angle in radians."""

    across: int
    angle: float
    distance: float
    centre_distance: float
    height: float


def sides_of(explanation: Explanation) -> Sides | None:
    """Lengths in the metric of the score; None where the guard knows no centre or no boundary."""
    found = None if explanation.geometry is None else explanation.geometry.triangle
    if found is None:
        return None
    (centre, floor), (feature, top), (boundary, _) = found.centre, found.feature, found.projection
    return Sides(found.label, math.radians(found.angle), boundary - feature, boundary - centre, top - floor)
