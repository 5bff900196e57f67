"""Sums that lose nothing: what workers have, added in whole numbers, and how far off float64 is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...core.arrays import FloatArray
from ...reference.moments import Moments

# A power of two by which every float64 of the experiment is a whole number.
SCALE = 2**300


@dataclass(frozen=True)
class Error:
    """Of the mean, in standard deviations; of the variance in any direction, relative to it."""

    mean: float
    variance: float


@dataclass(frozen=True)
class Drawn:
    """What one worker would send; the scatter is symmetric to the bit."""

    count: int
    mean: FloatArray
    scatter: FloatArray


@dataclass(frozen=True)
class Exact:
    """count, mean·count·SCALE and scatter·count·SCALE² as whole numbers."""

    count: int
    mean: Sequence[int]
    scatter: Sequence[Sequence[int]]

    def rounded(self) -> Moments:
        """The same in float64."""
        unit = self.count * SCALE
        scatter = [[value / (unit * SCALE) for value in row] for row in self.scatter]
        return Moments.restored(
            torch.tensor([self.count], dtype=torch.float64),
            torch.tensor([[value / unit for value in self.mean]], dtype=torch.float64),
            torch.tensor(scatter, dtype=torch.float64),
            None,
        )


def exact_sum(workers: Sequence[Drawn]) -> Exact:
    """Σ of what the workers have: N·(Σ S + Σ n m mᵀ) − (Σ n m)(Σ n m)ᵀ, which loses nothing."""
    count = sum(worker.count for worker in workers)
    means = [[_whole(value) for value in worker.mean.tolist()] for worker in workers]
    width = len(workers[0].mean)
    places = range(width)
    sums = [sum(worker.count * mean[i] for worker, mean in zip(workers, means, strict=True)) for i in places]
    scatter = [[0] * width for _ in places]
    for i in places:
        for j in range(i, width):
            within = sum(_whole(float(worker.scatter[i, j])) for worker in workers) * SCALE
            between = sum(
                worker.count * mean[i] * mean[j] for worker, mean in zip(workers, means, strict=True)
            )
            scatter[i][j] = scatter[j][i] = count * (within + between) - sums[i] * sums[j]
    return Exact(count, sums, scatter)


def _whole(value: float) -> int:
    """The value in units of 1/SCALE."""
    numerator, denominator = value.as_integer_ratio()
    whole, rest = divmod(numerator * SCALE, denominator)
    assert rest == 0
    return whole


def error_of(found: Moments, exact: Exact) -> Error:
    """How far off it is: differences are exact, and only they are rounded."""
    within = found.within
    assert within is not None
    mean_unit, scatter_unit = exact.count * SCALE, exact.count * SCALE * SCALE
    mean = [
        (_whole(value) * exact.count - true) / mean_unit
        for value, true in zip(found.means[0].tolist(), exact.mean, strict=True)
    ]
    off = [
        [
            (_whole(value) * exact.count * SCALE - true) / scatter_unit
            for value, true in zip(row, own, strict=True)
        ]
        for row, own in zip(within.tolist(), exact.scatter, strict=True)
    ]
    covariance = np.array([[true / scatter_unit for true in row] for row in exact.scatter])
    # In coordinates in which the variance is 1 in every direction.
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, np.linalg.solve(root, np.array(off)).T)
    moved = np.linalg.solve(root * exact.count**-0.5, np.array(mean))
    largest = np.abs(np.linalg.eigvalsh((white + white.T) / 2)).max()
    return Error(_two_digits(float(np.linalg.norm(moved))), _two_digits(float(largest)))


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
