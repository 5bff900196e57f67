"""What was fitted, in the precision and place of the rows: converted once, not with every batch.

Fits are float64, rows mostly float32. A copy lives as long as its original and is made again when that was
written to. Writes through NumPy or ``.data``, which PyTorch does not count, are not seen.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from .alike import Untold, counted_writes
from .graphs import recording


class _Copy(NamedTuple):
    writes: int
    values: Tensor


@dataclass(frozen=True)
class _Copies:
    original: weakref.ref[Tensor]
    by_kind: dict[tuple[torch.dtype, torch.device], _Copy] = field(default_factory=dict)


# By the originals' places in memory: a dictionary of weak keys takes longer than to convert a mean.
_copies: dict[int, _Copies] = {}


def kept_like(fitted: Tensor, rows: Tensor) -> Tensor:
    """``fitted`` in the precision and on the device of the rows."""
    kind = rows.dtype, rows.device
    if (fitted.dtype, fitted.device) == kind:
        return fitted
    if recording():
        return fitted.to(rows)
    try:
        writes = counted_writes(fitted)
    except Untold:
        return fitted.to(rows)
    copies = _copies_of(fitted).by_kind
    copy = copies.get(kind)
    if copy is None or copy.writes != writes:
        copy = copies[kind] = _Copy(writes, fitted.to(rows))
    return copy.values


def _copies_of(fitted: Tensor) -> _Copies:
    place = id(fitted)
    known = _copies.get(place)
    if known is None or known.original() is not fitted:
        known = _copies[place] = _Copies(weakref.ref(fitted, lambda _: _copies.pop(place, None)))
    return known
