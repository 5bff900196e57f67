"""How far rows are from a centre: one difference, and its lengths, for all scores that stand there."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.once import kept_like, once


def away(rows: Tensor, centre: Tensor) -> Tensor:
    """Rows less a fitted centre (D,), in the rows' precision. It may be others' too: nobody writes to it."""
    return once(_away, rows, centre)


def length(apart: Tensor) -> Tensor:
    """The length of each row of a difference, (n,)."""
    return once(_length, apart)


def _away(rows: Tensor, centre: Tensor) -> Tensor:
    return torch.sub(rows, kept_like(centre, rows))


def _length(apart: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(apart, dim=1)
    return lengths
