"""How well scores separate ID from OOD. Scores are higher for ID; results are fractions in [0, 1].

Every metric reads one object, the `Curve`: how many ID and OOD samples reach each distinct score. Ties are
therefore exact, and a bootstrap replicate is the same curve with other counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.arrays import ArrayLike, as_labels, as_matrix, as_scores
from ..core.errors import InputError

Counts: TypeAlias = npt.NDArray[np.float64]
_REPLICATES_AT_ONCE = 64
# A share such as 0.95·n is meant exactly; float64 may put it a hair above the whole number it is.
_SHARE_SLACK = 1e-9


class Curve(NamedTuple):
    """Samples at each distinct score, from the highest score down; a leading axis holds replicates."""

    id_counts: Counts
    ood_counts: Counts

    @classmethod
    def of(cls, id_scores: ArrayLike, ood_scores: ArrayLike) -> Curve:
        id_counts, ood_counts = _counted(id_scores, [ood_scores])
        return cls(id_counts, ood_counts)

    def reversed(self) -> Curve:
        """The same curve with OOD as the positive class: from the lowest score up, roles exchanged."""
        return Curve(self.ood_counts[..., ::-1], self.id_counts[..., ::-1])


def _counted(id_scores: ArrayLike, ood_sets: Sequence[ArrayLike]) -> list[Counts]:
    """Samples at each distinct score of all sets together: of the ID scores, then of each OOD set."""
    values = [as_scores(id_scores, "id_scores"), *(as_scores(part, "ood_scores") for part in ood_sets)]
    levels, where = np.unique(-np.concatenate(values), return_inverse=True)
    ends = np.cumsum([len(part) for part in values])[:-1]
    return [
        np.bincount(part, minlength=len(levels)).astype(np.float64) for part in np.split(where.ravel(), ends)
    ]


def _resampled(counts: Counts, rng: np.random.Generator, replicates: int) -> Counts:
    """As many samples again, drawn with replacement, in each replicate."""
    size = int(counts.sum())
    return rng.multinomial(size, counts / size, size=replicates).astype(np.float64)


def _fpr(curve: Curve, tpr: float) -> Counts:
    accepted = curve.id_counts.cumsum(axis=-1)
    needed = np.ceil(tpr * accepted[..., -1:] - _SHARE_SLACK)
    at = (accepted >= needed).argmax(axis=-1)
    false = curve.ood_counts.cumsum(axis=-1)
    return np.asarray(np.take_along_axis(false, at[..., None], axis=-1)[..., 0] / false[..., -1])


def _auroc(curve: Curve) -> Counts:
    above = curve.id_counts.cumsum(axis=-1) - curve.id_counts / 2
    pairs = curve.id_counts.sum(axis=-1) * curve.ood_counts.sum(axis=-1)
    return np.asarray((curve.ood_counts * above).sum(axis=-1) / pairs)


def _aupr(curve: Curve) -> Counts:
    """Area under precision over recall by trapezoids, as scikit-learn's auc(recall, precision)."""
    true = curve.id_counts.cumsum(axis=-1)
    called = true + curve.ood_counts.cumsum(axis=-1)
    # A bootstrap replicate may have nothing at the highest scores: precision is 1 where nothing is called.
    precision = np.divide(true, called, out=np.ones_like(true), where=called > 0)
    before = np.concatenate([np.ones_like(precision[..., :1]), precision[..., :-1]], axis=-1)
    steps = curve.id_counts / true[..., -1:]
    return np.asarray((steps * (precision + before) / 2).sum(axis=-1))


def fpr_at_tpr(id_scores: ArrayLike, ood_scores: ArrayLike, tpr: float = 0.95) -> float:
    """The paper's FPR95: share of OOD accepted at the highest threshold that accepts ``tpr`` of ID."""
    return float(_fpr(Curve.of(id_scores, ood_scores), _share(tpr)))


def fpr_at_tpr_ood_positive(id_scores: ArrayLike, ood_scores: ArrayLike, tpr: float = 0.95) -> float:
    """The field's other FPR95: share of ID rejected at the threshold that rejects ``tpr`` of OOD."""
    return float(_fpr(Curve.of(id_scores, ood_scores).reversed(), _share(tpr)))


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Chance that a random ID sample scores above a random OOD sample, ties counting half."""
    return float(_auroc(Curve.of(id_scores, ood_scores)))


def aupr_in(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the precision-recall curve with ID as the positive class."""
    return float(_aupr(Curve.of(id_scores, ood_scores)))


def aupr_out(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the precision-recall curve with OOD as the positive class."""
    return float(_aupr(Curve.of(id_scores, ood_scores).reversed()))


def accuracy(logits: ArrayLike, labels: ArrayLike) -> float:
    """Share of ID samples whose largest logit is at their label."""
    outputs = as_matrix(logits, "logits", None, "")
    targets = as_labels(labels, *outputs.shape)
    return float((outputs.argmax(dim=1).cpu() == targets.cpu()).double().mean())


METRICS: dict[str, Callable[[Curve], Counts]] = {
    "fpr95": lambda curve: _fpr(curve, 0.95),
    "auroc": _auroc,
    "aupr_in": _aupr,
    "aupr_out": lambda curve: _aupr(curve.reversed()),
    "fpr95_ood_positive": lambda curve: _fpr(curve.reversed(), 0.95),
}


@dataclass(frozen=True)
class Metrics:
    """All metrics of one pair of ID and OOD scores."""

    fpr95: float
    auroc: float
    aupr_in: float
    aupr_out: float
    fpr95_ood_positive: float


def evaluate(id_scores: ArrayLike, ood_scores: ArrayLike) -> Metrics:
    """All metrics at once, from one sort."""
    curve = Curve.of(id_scores, ood_scores)
    return Metrics(**{name: float(metric(curve)) for name, metric in METRICS.items()})


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
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if replicates < 1:
        raise InputError(f"replicates must be at least 1, got {replicates}")
    if not ood_sets:
        raise InputError("ood_sets is empty: an average needs at least one OOD set")
    tail = (1 - _share(level, "level")) / 2
    known, *strange = _counted(id_scores, ood_sets)
    measure, rng = METRICS[metric], np.random.default_rng(seed)
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


def _share(value: float, name: str = "tpr") -> float:
    if not 0 < value <= 1:
        raise InputError(f"{name} must lie in (0, 1], got {value}")
    return value
