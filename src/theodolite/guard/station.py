"""Where a guard's triangles are seen from: the boundaries of its head, the centre, and the metric of lengths.

Scores that hold the mean of the ID features (ORA, fDBD, Relative Energy, NCI, NECO, MDS) bring their own
centre and measure lengths as they do themselves. For others the mean of a bank of ID features will do, where
one is given; without it there are distances to boundaries, but no angles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..detectors import FDBD, MDS, NCI, NECO, ORA, Detector, RelativeEnergy
from ..geometry.boundaries import Boundaries, Margins
from ..geometry.centres import Stand, Stations
from ..geometry.inner_product import Mahalanobis
from ..geometry.triangle import Triangle, triangle
from ..reference.head import Head
from .explanation import EUCLIDEAN, MAHALANOBIS, BoundarySeen, Geometry, PlaneTriangle

ID_MEAN = "the mean of the ID features"
_HOLDS_MEAN: tuple[tuple[type[Detector], str], ...] = (
    (FDBD, "mean"),
    (RelativeEnergy, "mean"),
    (NCI, "mean"),
    (NECO, "mean"),
    (MDS, "centre"),
)


@dataclass(frozen=True)
class Station:
    """Boundaries in a metric, and the centre they are seen from: ``stations`` is None where there is none.

    ``decides``: the score is the largest angle seen from here. ``missing`` says why there is no centre.
    """

    boundaries: Boundaries
    stations: Stations | None
    metric: str
    centre: str | None
    decides: bool = False
    missing: str | None = None

    def angles(self, rows: Tensor, logits: Tensor) -> Tensor:
        """The largest angle (n,) of rows in float64, in radians."""
        return _looked(self, rows, logits)[2].angles().amax(dim=1)


def station_of(detector: Detector, head: Head, bank_mean: Callable[[], Tensor] | None, of: str) -> Station:
    """The station of a fitted detector; ``bank_mean`` gives that of ID features ``of`` which were given."""
    if isinstance(detector, ORA):
        return _of_ora(detector, head)
    if detector.of_layers:
        missing = (
            "the score looks at several layers, whose features lie in no one plane: the triangle is left out"
        )
        return Station(Boundaries(head), None, EUCLIDEAN, None, missing=missing)
    mean, metric = _own_mean(detector), getattr(detector, "_metric", None)
    words = ID_MEAN
    if mean is None and bank_mean is not None:
        mean, words = bank_mean(), f"the mean of {of}"
    if mean is None:
        missing = (
            f"{detector.record.title} keeps no mean of the ID features to see angles from, so the triangle "
            f"is left out: give ID features (bank=, --bank)"
        )
        return Station(Boundaries(head), None, EUCLIDEAN, None, missing=missing)
    boundaries = Boundaries(head, metric)
    return Station(boundaries, Stations("mean", mean[None], head, metric), _named(metric), words)


def _of_ora(ora: ORA, head: Head) -> Station:
    metric = _named(ora._metric)
    if ora.project_to_sphere or str(ora.centre).startswith("sum"):
        missing = (
            "the projection is put back on the unit sphere, where it lies in no plane with the boundary"
            if ora.project_to_sphere
            else f"the score sums over several centres (centre={ora.centre!r})"
        )
        boundaries = Boundaries(head, ora._metric)
        return Station(boundaries, None, metric, None, missing=f"{missing}: the triangle is left out")
    named = {
        "mean": ID_MEAN,
        "balanced": "the mean of the class means",
        "predicted": "the mean of the predicted class",
        "target": "the mean of the class across",
    }
    centre = named.get(str(ora.centre), f"the element-wise {ora.centre} of the ID features")
    if isinstance(ora.centre, int):
        centre = f"the mean of class {ora.centre}"
    return Station(ora._boundaries, ora._stations, metric, centre, decides=ora.decided_by_one)


def _own_mean(detector: Detector) -> Tensor | None:
    """The ID mean that a score holds, if it is one of the features as the head sees them."""
    if detector.unit:
        return None
    name = next((name for kind, name in _HOLDS_MEAN if isinstance(detector, kind)), None)
    mean = None if name is None else getattr(detector, name)
    return mean.double() if isinstance(mean, Tensor) else None


def _named(metric: Mahalanobis | None) -> str:
    return EUCLIDEAN if metric is None else MAHALANOBIS


def geometries(
    station: Station, rows: Tensor, logits: Tensor, class_name: Callable[[int], str]
) -> Sequence[Geometry | None]:
    """Where rows (n, D) stand, as the score sees them, in float64; None where a row has no boundary, or
    numbers that overflow. O(n·(C + D)) beside the logits."""
    margins, stand, seen = _looked(station, rows, logits)
    here = margins.reciprocal > 0
    nearest = margins.distance.masked_fill(~here, math.inf).argmin(dim=1)
    furthest = margins.distance.masked_fill(~here, -math.inf).argmax(dim=1)
    angles = seen.angles()
    widest = angles.masked_fill(~here, -math.inf).argmax(dim=1)

    def boundary(row: int, label: int) -> BoundarySeen:
        angle = None if station.stations is None else math.degrees(float(angles[row, label]))
        return BoundarySeen(label, class_name(label), float(margins.distance[row, label]), angle)

    found: list[Geometry | None] = []
    for row, (predicted, near, far, wide) in enumerate(
        zip(*(column.tolist() for column in (margins.predicted, nearest, furthest, widest)), strict=True)
    ):
        sides = [margins.distance[row][here[row]], seen.dot[row], seen.cross[row]]
        if not bool(here[row].any()) or not all(bool(torch.isfinite(side).all()) for side in sides):
            found.append(None)
            continue
        corners = None if stand is None else _corners(margins, stand, seen, row, wide)
        drawn = None
        if corners is not None:
            angle = math.degrees(float(angles[row, wide]))
            drawn = PlaneTriangle(wide, class_name(wide), angle, (0.0, 0.0), *corners, station.decides)
        found.append(
            Geometry(
                predicted,
                class_name(predicted),
                station.metric,
                boundary(row, near),
                boundary(row, far),
                station.centre,
                drawn,
            )
        )
    return found


def _looked(station: Station, rows: Tensor, logits: Tensor) -> tuple[Margins, Stand | None, Triangle]:
    margins = station.boundaries.margins(logits)
    if station.stations is None:
        nothing = torch.zeros_like(margins.distance)
        return margins, None, Triangle(nothing, nothing, nothing)
    (stand,) = station.stations.stands(rows, margins)
    return margins, stand, triangle(margins.distance, stand.centre_distance, stand.squared_norm)


def _corners(
    margins: Margins, stand: Stand, seen: Triangle, row: int, label: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Feature and projection in the plane, seen from the centre: the boundary is upright."""
    along, distance = float(stand.centre_distance[row, label]), float(margins.distance[row, label])
    height = float(seen.height[row, label])
    return (along - distance, height), (along, height)
