"""What was fitted, in the precision and place of the rows: converted once, not with every batch.

Fits are float64, rows mostly float32. A copy lives as long as its original and is made again when that was
written to. Writes through NumPy or ``.data``, which PyTorch does not count, are not seen.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .alike import Untold, counted_writes
from .graphs import recording


class _Copy(NamedTuple):
    writes: int
    values: Tensor


_copies: MutableMapping[Tensor, dict[tuple[torch.dtype, torch.device], _Copy]] = WeakTensorKeyDictionary()


def kept_like(fitted: Tensor, rows: Tensor) -> Tensor:
    """``fitted`` in the precision and on the device of the rows."""
    if fitted.dtype == rows.dtype and fitted.device == rows.device:
        return fitted
    try:
        # A graph has the conversion inside; of an inference tensor nobody knows whether it was written to.
        writes = -1 if recording() else counted_writes(fitted)
    except Untold:
        writes = -1
    if writes < 0:
        return fitted.to(rows.device, rows.dtype)
    places = _copies.setdefault(fitted, {})
    copy = places.get((rows.dtype, rows.device))
    if copy is None or copy.writes != writes:
        copy = places[rows.dtype, rows.device] = _Copy(writes, fitted.to(rows.device, rows.dtype))
    return copy.values
