"""The origin of the logits, and the space that the leading directions about it leave over."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.errors import InputError
from ..reference.head import Head
from ..reference.reference import Reference
from .covariance import Axes, not_flat, total_axes, total_covariance

# The square of the origin's distance, in variances of the features, beyond which the fit needs more care.
_DWARFED = 2.0**20


class ResidualSpace(NamedTuple):
    """An origin (D,) and directions (D, D − d), its columns; d is at most the rank of the data."""

    origin: Tensor
    directions: Tensor


def residual_space(reference: Reference, head: Head, dimension: int | None) -> ResidualSpace:
    """u = −W⁺b, and what ``dimension`` leading directions of the second moment of z − u leave over.

    Where the rows span fewer, as few rows do, all that they do not span is left over: which of the directions
    without a variance lead would be for the rounding to say.
    """
    moments = reference.statistics.moments
    kept = dimension or default_dimension(head.width)
    if kept >= head.width:
        raise InputError(f"dimension must be below the feature width {head.width}, got {kept}")
    origin = reference.derived("origin of the logits", lambda: _origin(head, moments.mean))
    shift = (moments.mean - origin)[:, None]
    ascending = reference.derived("directions about the origin", lambda: _ascending(reference, shift))
    rank = int(not_flat(ascending.variances, head.width).sum())
    return ResidualSpace(origin, ascending.directions[:, : head.width - min(kept, rank)])


def default_dimension(width: int) -> int:
    """The field's choice of the principal dimension for features of this width."""
    if width >= 2048:
        return 1000
    return 512 if width >= 768 else max(1, width // 2)


def _origin(head: Head, like: Tensor) -> Tensor:
    # Weights that sum to zero over the classes but for their rounding have no inverse in that direction.
    tolerance = max(head.weight.shape) * torch.finfo(head.weight.dtype).eps
    origin: Tensor = -torch.linalg.pinv(head.weight.to(like), rtol=tolerance) @ head.bias.to(like)
    return origin


def _ascending(reference: Reference, shift: Tensor) -> Axes:
    """The axes of the second moment Σ + s·sᵀ, for the total covariance and a shift (D, 1); least first.

    A shift that dwarfs the spread would drown Σ in the rounding of s·sᵀ; a singular value decomposition of
    the two roots, one above the other, keeps the digits of both.
    """
    covariance = total_covariance(reference)
    if not bool(shift.square().sum() > _DWARFED * covariance.trace()):
        return Axes.of(covariance + shift @ shift.T)
    variances, directions = total_axes(reference)
    spread = torch.where(not_flat(variances, len(variances)), variances, 0).sqrt()
    roots = torch.cat([directions.T * spread[:, None], shift.T])
    _, lengths, across = torch.linalg.svd(roots, full_matrices=False)
    return Axes(lengths.flip(0), across.flip(0).T)
