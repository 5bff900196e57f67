"""Why a guard says what it says of one sample, as a record: plain numbers and names, to print, draw or send.

Every part that a guard cannot know is None, and `notes` say in words what is left out and why: a drawing
shows nothing that was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..core.arrays import FloatArray

Point: TypeAlias = tuple[float, float]
EUCLIDEAN, MAHALANOBIS = "euclidean", "mahalanobis"

# Below this a p-value is told as one in so many, above as so many of a hundred.
_RARE = 0.1
_BINS = 40
# A few far outliers must not squeeze the rest into two bins: they are counted in the outermost ones.
_SHOWN = (0.002, 0.998)


@dataclass(frozen=True)
class Prediction:
    """A class by number and name, its logit, and its probability by softmax."""

    label: int
    name: str
    probability: float
    logit: float


@dataclass(frozen=True)
class BoundarySeen:
    """The boundary to one other class: how far the feature is from it, and the angle seen from the centre.

    ``angle`` is in degrees, None without a centre.
    """

    label: int
    name: str
    distance: float
    angle: float | None


@dataclass(frozen=True)
class PlaneTriangle:
    """Centre μ, feature z and its projection z_db on the boundary to class ``name``, in their plane.

    The boundary is the upright line through ``projection``, the predicted class to its left; the second
    coordinate lies within the boundary. ``angle`` is the one at the centre in degrees. It is the largest of
    all boundaries; ``decides`` where the score is that angle.
    """

    label: int
    name: str
    angle: float
    centre: Point
    feature: Point
    projection: Point
    decides: bool


@dataclass(frozen=True)
class IdAngles:
    """The same largest angle of ``count`` ID samples, in degrees: 5 %, 50 % and 95 % of them lie below."""

    low: float
    median: float
    high: float
    count: int
    of: str


@dataclass(frozen=True)
class Geometry:
    """A feature among the boundaries of class ``name``, which the score takes it for.

    ``metric`` says what lengths are measured in, ``euclidean`` or ``mahalanobis`` (the score's own: units of
    the ID features' deviation). ``centre`` is the station of the angles in words; without one there are no
    angles.
    """

    label: int
    name: str
    metric: str
    nearest: BoundarySeen
    furthest: BoundarySeen
    centre: str | None = None
    triangle: PlaneTriangle | None = None
    id_angles: IdAngles | None = None


@dataclass(frozen=True)
class Neighbour:
    """An ID sample near the one in question; ``picture`` is the file of its picture, where it is there."""

    name: str
    value: float
    picture: str | None = None


@dataclass(frozen=True)
class Neighbours:
    """The nearest ID samples, nearest first. ``measure`` says what the values are, ``of`` whose they are."""

    measure: str
    of: str
    samples: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Histogram:
    """How many of ``count`` values lie between neighbouring edges; the outermost bins hold all beyond."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, values: FloatArray) -> Histogram:
        low, high = np.quantile(values, _SHOWN)
        if not high > low:
            reach = max(abs(low), 1.0) * 1e-3
            low, high = low - reach, high + reach
        edges = low + (high - low) * np.arange(_BINS + 1) / _BINS
        counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        return cls(tuple(edges.tolist()), tuple(counts.tolist()), len(values))


@dataclass(frozen=True)
class Explanation:
    """One sample: the verdict, and everything it rests on.

    ``verdict`` is ``OOD``, ``ID`` or ``unscorable``; of an unscorable sample nothing else is known.
    ``picture`` is the file of the sample's picture where it can be opened. ``calibration`` are the scores of
    familiar samples, of the same class where the guard is calibrated by class; the sample is flagged below
    ``threshold``. ``notes`` say what is left out and why.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> (why,) = guard.explain(means[:1])
    >>> why.verdict, why.predictions[0].label, why.geometry.triangle.angle > 0
    ('ID', 0, True)
    """

    name: str
    picture: str | None
    verdict: str
    in_words: str
    score_title: str
    score: float | None
    p_value: float | None
    false_alarm_rate: float
    threshold: float | None
    calibration: Histogram
    predictions: tuple[Prediction, ...] = ()
    geometry: Geometry | None = None
    neighbours: Neighbours | None = None
    notes: tuple[str, ...] = ()


def p_value_in_words(p_value: float, count: int, what: str = "samples") -> str:
    """How strange a p-value against ``count`` calibration scores is: "1 in 340 familiar pictures …"."""
    at_least_as_strange = round(p_value * (count + 1)) - 1
    if at_least_as_strange <= 0:
        return f"stranger than all {count:,} familiar {what}"
    if at_least_as_strange >= count:
        return f"every one of {count:,} familiar {what} looks at least this strange"
    if p_value < _RARE:
        return f"1 in {round(1 / p_value):,} familiar {what} looks this strange"
    return f"{min(99, round(100 * p_value))} of 100 familiar {what} look at least this strange"
