"""Principal directions: the fewest that explain a share of the variance, and what they leave over."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.errors import InputError
from ..reference.reference import Reference
from .covariance import Axes, not_flat, total_axes, total_covariance

_EPSILON = torch.finfo(torch.float64).eps
# Columns beyond the rank that a random sketch of a matrix has: so many that it misses nothing of its range.
_SPARE = 16


class Principal(NamedTuple):
    """Directions (D, q), its columns, and the variance outside of them."""

    directions: Tensor
    outside: Tensor


def explaining(variances: Tensor, share: float) -> int:
    """How many of the largest variances, which come last, sum to at least this share of all."""
    explained = variances.clamp_min(0).flip(0).cumsum(0)
    return 1 + int((explained < share * explained[-1] * (1 - 1e-12)).sum())


def principal(reference: Reference, share: float, dimension: int | None = None) -> Principal:
    """The fewest directions that explain a share of the variance of all rows, or a number of them; none where
    the rows are all alike but for rounding. A number above that of the directions with a variance is refused:
    the rest of them would be for the rounding to choose."""
    variances, directions = _axes(reference)
    mean = reference.statistics.moments.mean
    if not bool(variances.clamp_min(0).sum() > len(mean) * _EPSILON**2 * mean.square().sum()):
        return Principal(directions[:, :0], torch.zeros_like(variances.sum()))
    vary = int(not_flat(variances, len(mean)).sum())
    if dimension is not None and dimension > vary:
        raise InputError(
            f"dimension must be at most {vary}, the number of directions in which the {reference.count:,} "
            f"rows vary, got {dimension}"
        )
    count = dimension or min(explaining(variances, share), vary)
    return Principal(directions[:, -count:].contiguous(), variances[:-count].clamp_min(0).sum())


def _axes(reference: Reference) -> Axes:
    """Of all rows; where these are fewer than the dimensions, of the space that they span alone."""
    if reference.count >= reference.statistics.width:
        return total_axes(reference)
    return reference.derived(
        "axes of the range of all rows", lambda: _of_range(total_covariance(reference), reference.count)
    )


def _of_range(covariance: Tensor, rank: int) -> Axes:
    """The axes of a covariance of at most this rank: O(D²·r) instead of O(D³).

    Products with random columns span its range, whatever they are; in a basis of it the matrix is small.
    """
    columns = min(len(covariance), rank + _SPARE)
    draws = torch.randn(
        len(covariance), columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    basis = torch.linalg.qr(covariance @ draws.to(covariance)).Q
    variances, directions = Axes.of(basis.T @ covariance @ basis)
    return Axes(variances, basis @ directions)
