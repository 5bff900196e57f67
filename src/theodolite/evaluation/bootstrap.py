"""Bootstrap confidence intervals of a metric, for one OOD set or for the average over several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from .curve import Counts, Curve, check_share, counted
from .metrics import metric as metric_called

_REPLICATES_AT_ONCE = 64


class Interval(NamedTuple):
    """A value and its bootstrap confidence interval."""

    value: float
    low: float
    high: float


def bootstrap(
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    metric: str = "fpr95",
    *,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a metric under resampling of ID and OOD samples (stratified, seeded).

    O(replicates · distinct scores) after one sort.
    """
    return bootstrap_average(id_scores, [ood_scores], metric, level=level, replicates=replicates, seed=seed)


def bootstrap_average(
    id_scores: ArrayLike,
    ood_sets: Sequence[ArrayLike],
    metric: str = "fpr95",
    *,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Interval:
    """The interval of a metric's average over OOD sets; a replicate meets all of them with one ID draw."""
    measure = metric_called(metric).of
    if replicates < 1:
        raise InputError(f"replicates must be at least 1, got {replicates}")
    if not ood_sets:
        raise InputError("ood_sets is empty: an average needs at least one OOD set")
    tail = (1 - check_share(level, "level")) / 2
    known, *strange = counted(id_scores, ood_sets)
    rng = np.random.default_rng(seed)
    values: list[Counts] = []
    for start in range(0, replicates, _REPLICATES_AT_ONCE):
        count = min(_REPLICATES_AT_ONCE, replicates - start)
        drawn = _resampled(known, rng, count)
        values.append(
            np.mean([measure(Curve(drawn, _resampled(part, rng, count))) for part in strange], axis=0)
        )
    low, high = np.quantile(np.concatenate(values), [tail, 1 - tail])
    value = np.mean([measure(Curve(known, part)) for part in strange])
    return Interval(float(value), float(low), float(high))


def _resampled(counts: Counts, rng: np.random.Generator, replicates: int) -> Counts:
    """As many samples again, drawn with replacement, in each replicate."""
    size = int(counts.sum())
    return rng.multinomial(size, counts / size, size=replicates).astype(np.float64)
