"""The triangle behind a verdict, for the page to draw: the furthest boundary, seen from the ID mean."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..detectors import FDBD, NCI, ORA, Detector, RelativeEnergy
from ..geometry.boundaries import Boundaries
from ..geometry.triangle import signed_distances, triangle
from ..guard import Guard
from ..reference.head import Head

_boundaries: WeakKeyDictionary[Detector, Boundaries] = WeakKeyDictionary()


class Sides(NamedTuple):
    """The triangle of μ, z and its projection on the boundary to class ``across``; the angle in radians."""

    across: int
    angle: float
    distance: float
    centre_distance: float
    height: float


def sides_of(guard: Guard, features: Tensor) -> list[Sides | None]:
    """The deciding triangle of each row; None where the score has no centre, or the row no finite sides."""
    whole = torch.isfinite(features).all(dim=1)
    if not bool(whole.any()):
        return [None] * len(features)
    seen = _seen(guard.detector, guard.head, features[whole])
    if seen is None:
        return [None] * len(features)
    rows = iter(zip(*(column.tolist() for column in seen), strict=True))
    sides = [Sides(*next(rows)) if fine else None for fine in whole.tolist()]
    return [one if one is not None and _finite(one) else None for one in sides]


def _seen(detector: Detector, head: Head | None, features: Tensor) -> tuple[Tensor, ...] | None:
    """Class across, angle, distance, centre's distance and height as columns: ORA's own, or the plain one."""
    if isinstance(detector, ORA):
        return None if str(detector.centre).startswith("sum") else tuple(detector.sight(features)[1:])
    if head is None or detector.shaping is not None or not isinstance(detector, FDBD | NCI | RelativeEnergy):
        return None
    exact, centre = head.prepare(features.double()), detector.mean.double()
    if detector not in _boundaries:
        _boundaries[detector] = Boundaries(head)
    margins = _boundaries[detector].margins(head.logits(exact))
    logits = head.logits(centre[None])
    own = logits[0, margins.predicted, None]
    centre_distance = signed_distances(own, logits, margins.reciprocal)
    squared = (exact - centre).square().sum(dim=1, keepdim=True)
    found = triangle(margins.distance, centre_distance, squared)
    angles = found.angles()
    furthest = angles.argmax(dim=1, keepdim=True)
    sides = (angles, margins.distance, centre_distance, found.height)
    return furthest[:, 0], *(side.gather(1, furthest)[:, 0] for side in sides)


def _finite(sides: Sides) -> bool:
    return bool(torch.isfinite(torch.tensor(sides[1:])).all())
