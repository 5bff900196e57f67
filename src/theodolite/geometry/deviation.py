"""How far rows are from a centre: the same difference, and the same lengths, for all that stand there."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.once import kept_like, once
from .inner_product import Mahalanobis


def away(rows: Tensor, centre: Tensor) -> Tensor:
    """Rows less a fitted centre (D,), in the rows' precision. It may be others' too: nobody writes to it."""
    return once(_away, rows, centre)


def length(rows: Tensor, centre: Tensor) -> Tensor:
    """‖z − μ‖, (n,)."""
    return once(_length, rows, centre)


def squared_length(rows: Tensor, centre: Tensor, metric: Mahalanobis | None = None) -> Tensor:
    """‖z − μ‖² in the metric, (n, 1)."""
    if metric is None:
        return once(_squared_length, rows, centre)
    return metric.coordinates(away(rows, centre)).square().sum(dim=1, keepdim=True)


def _away(rows: Tensor, centre: Tensor) -> Tensor:
    return torch.sub(rows, kept_like(centre, rows))


def _length(rows: Tensor, centre: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(away(rows, centre), dim=1)
    return lengths


def _squared_length(rows: Tensor, centre: Tensor) -> Tensor:
    # A difference of its own: squared in place, it never leaves the cache.
    return _away(rows, centre).square_().sum(dim=1, keepdim=True)
