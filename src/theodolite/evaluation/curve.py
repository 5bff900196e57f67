"""How many ID and OOD samples reach each distinct score: the one object that every metric reads.

Ties are therefore exact, and a bootstrap replicate is the same curve with other counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.arrays import ArrayLike, as_scores
from ..core.errors import InputError

Counts: TypeAlias = npt.NDArray[np.float64]
TPR = 0.95
# A share such as 0.95·n is meant exactly; float64 may put it a hair above the whole number it is.
_SLACK = 1e-9


class Curve(NamedTuple):
    """Samples at each distinct score, from the highest score down; a leading axis holds replicates."""

    id_counts: Counts
    ood_counts: Counts

    @classmethod
    def of(cls, id_scores: ArrayLike, ood_scores: ArrayLike) -> Curve:
        id_counts, ood_counts = counted(id_scores, [ood_scores])
        return cls(id_counts, ood_counts)

    def reversed(self) -> Curve:
        """The same curve with OOD as the positive class: from the lowest score up, roles exchanged."""
        return Curve(self.ood_counts[..., ::-1], self.id_counts[..., ::-1])


def counted(id_scores: ArrayLike, ood_sets: Sequence[ArrayLike]) -> list[Counts]:
    """Samples at each distinct score of all sets together: of the ID scores, then of each OOD set."""
    values = [as_scores(id_scores, "id_scores"), *(as_scores(part, "ood_scores") for part in ood_sets)]
    levels, where = np.unique(-np.concatenate(values), return_inverse=True)
    ends = np.cumsum([len(part) for part in values])[:-1]
    return [
        np.bincount(part, minlength=len(levels)).astype(np.float64) for part in np.split(where.ravel(), ends)
    ]


def fpr(curve: Curve, tpr: float = TPR) -> Counts:
    """Share of OOD accepted at the highest score that accepts ``tpr`` of ID."""
    accepted = curve.id_counts.cumsum(axis=-1)
    needed = np.ceil(tpr * accepted[..., -1:] - _SLACK)
    at = (accepted >= needed).argmax(axis=-1)
    false = curve.ood_counts.cumsum(axis=-1)
    return np.asarray(np.take_along_axis(false, at[..., None], axis=-1)[..., 0] / false[..., -1])


def threshold_at_tpr(id_scores: ArrayLike, tpr: float = TPR) -> float:
    """The highest λ such that at least ``tpr`` of the ID scores satisfy s ≥ λ. O(N)."""
    scores = as_scores(id_scores, "id_scores")
    place = len(scores) - math.ceil(check_share(tpr, "tpr") * len(scores) - _SLACK)
    return float(np.partition(scores, place)[place])


def auroc(curve: Curve) -> Counts:
    """Chance that an ID sample scores above an OOD sample, ties counting half."""
    above = curve.id_counts.cumsum(axis=-1) - curve.id_counts / 2
    pairs = curve.id_counts.sum(axis=-1) * curve.ood_counts.sum(axis=-1)
    return np.asarray((curve.ood_counts * above).sum(axis=-1) / pairs)


def aupr(curve: Curve) -> Counts:
    """Area under precision over recall by trapezoids, as scikit-learn's auc(recall, precision)."""
    true = curve.id_counts.cumsum(axis=-1)
    called = true + curve.ood_counts.cumsum(axis=-1)
    # A bootstrap replicate may have nothing at the highest scores: precision is 1 where nothing is called.
    precision = np.divide(true, called, out=np.ones_like(true), where=called > 0)
    before = np.concatenate([np.ones_like(precision[..., :1]), precision[..., :-1]], axis=-1)
    steps = curve.id_counts / true[..., -1:]
    return np.asarray((steps * (precision + before) / 2).sum(axis=-1))


def check_share(value: float, name: str) -> float:
    """``value`` itself, if it is a share above 0."""
    if not 0 < value <= 1:
        raise InputError(f"{name} must lie in (0, 1], got {value}")
    return value
