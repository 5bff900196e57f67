"""Mahalanobis distances: whiten once, then distances to all class means are one matrix product.

A matrix is decomposed once for all detectors that are fitted on the same reference: O(D³), more than the pass
over the data where there are few rows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept
from ..reference.reference import Reference

_EPSILON = torch.finfo(torch.float64).eps


def not_flat(variances: Tensor, width: int) -> Tensor:
    """Which directions of a space of ``width`` dimensions count: those whose variance exceeds D·ε times the
    largest (ε = 2.2e-16). The others are flat but for rounding; how many are left is the numerical rank."""
    return variances > width * _EPSILON * variances.amax()


class Axes(NamedTuple):
    """A covariance as variances (D,), the least first, along directions (D, D), its columns; float64."""

    variances: Tensor
    directions: Tensor

    @classmethod
    def of(cls, covariance: Tensor) -> Axes:
        return cls(*torch.linalg.eigh(covariance.to(torch.float64)))


def total_covariance(reference: Reference) -> Tensor:
    """Of all rows about their mean."""
    return reference.derived("total covariance", lambda: reference.statistics.moments.total / reference.count)


def total_axes(reference: Reference) -> Axes:
    return reference.derived("axes of all rows", lambda: Axes.of(total_covariance(reference)))


def within_axes(reference: Reference) -> Axes:
    """Of the covariance of the rows about the means of their classes."""

    def decomposed() -> Axes:
        within = reference.statistics.moments.within
        if within is None:
            raise InputError("the scatter was not collected")
        return Axes.of(within / reference.count)

    return reference.derived("axes within classes", decomposed)


def whitener(axes: Axes) -> Tensor:
    """A (D, r) factor F with F Fᵀ = pseudo-inverse of the covariance; r is its numerical rank."""
    variances, directions = axes
    kept = not_flat(variances, len(variances))
    factor: Tensor = directions[:, kept] * variances[kept].rsqrt()
    return factor


def scale_of(mean: Tensor, spread: Tensor) -> Tensor:
    """What to divide units by: their spread, or 1 for those that never vary but for their rounding."""
    varies = spread > _EPSILON**0.5 * mean.abs()
    return torch.where(varies, spread, torch.ones_like(spread))


def whitened_distances(whitened: Tensor, whitened_means: Tensor) -> Tensor:
    """‖row − mean‖² for all pairs, (N, C), of rows and means that went through the same `whitener`.

    In float64: the two squares are often much larger than their difference.
    """
    squares = whitened.square().sum(dim=1, keepdim=True) + kept(_squared_norms, whitened_means)
    return squares.addmm_(whitened, whitened_means.T, alpha=-2).clamp_min_(0)


def _squared_norms(rows: Tensor) -> Tensor:
    return rows.square().sum(dim=1)
