"""Mahalanobis distances: whiten once, then distances to all class means are one matrix product."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.once import kept

_EPSILON = torch.finfo(torch.float64).eps


def not_flat(variances: Tensor, width: int) -> Tensor:
    """Which directions of a space of ``width`` dimensions count: those whose variance exceeds D·ε times the
    largest (ε = 2.2e-16). The others are flat but for rounding; how many are left is the numerical rank."""
    return variances > width * _EPSILON * variances.amax()


def whitener(covariance: Tensor) -> Tensor:
    """A (D, r) factor F with F Fᵀ = pseudo-inverse of ``covariance``, float64; r is its numerical rank."""
    variances, directions = torch.linalg.eigh(covariance.to(torch.float64))
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
