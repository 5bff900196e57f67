"""How far two rankings of the same things agree: Spearman's and Kendall's rank correlation, ties included."""

from __future__ import annotations

import numpy as np

from ..core.arrays import ArrayLike, FloatArray, as_scores
from ..core.errors import InputError


def average_ranks(values: ArrayLike) -> FloatArray:
    """Ranks from 1, the smallest value first; equal values share the mean of their ranks."""
    numbers = as_scores(values, "values")
    _, where, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    ranks: FloatArray = (last - (counts - 1) / 2)[where.ravel()]
    return ranks


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """ρ: the correlation of the ranks; None where one side has a single value, and no ranking."""
    one, two = (average_ranks(values) for values in _paired(first, second))
    one, two = one - one.mean(), two - two.mean()
    scale = np.sqrt((one @ one) * (two @ two))
    return None if scale == 0 else float((one @ two) / scale)


def kendall(first: ArrayLike, second: ArrayLike) -> float | None:
    """τ_b = (P − Q) / √((n₀ − n₁)(n₀ − n₂)), P and Q the pairs in the same and in opposite order.

    n₀ are all pairs, n₁ and n₂ those tied on either side; None where one side has a single value.
    """
    one, two = (np.sign(values[:, None] - values[None, :]) for values in _paired(first, second))
    scale = np.sqrt((one**2).sum() * (two**2).sum())
    return None if scale == 0 else float((one * two).sum() / scale)


def _paired(first: ArrayLike, second: ArrayLike) -> tuple[FloatArray, FloatArray]:
    one, two = as_scores(first, "first"), as_scores(second, "second")
    if len(one) != len(two):
        raise InputError(f"first has {len(one)} values and second {len(two)}: expected as many")
    return one, two
