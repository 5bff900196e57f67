"""Percentiles of every unit of features in a stream: a histogram each, whose bins follow the float format.

A bin is a sign, an exponent and six bits of mantissa, 1.6 % wide, and values are interpolated within it. Only
bins that were seen are kept, a few hundred a unit. Counts are exact, mergeable and independent of order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Self

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from .looks import Look
from .percentiles import bins_of, lower_edges
from .storage import take

_DROPPED_BITS = 17
_BINS = 2 ** (32 - _DROPPED_BITS)
# Entries whose keys are sorted at once, and of columns that are sorted for exact percentiles.
_AT_ONCE = 2**22
_COLUMN_ENTRIES = 2**25


class UnitHistograms(Look):
    """How often each bin of each unit was seen; a key is the unit's number times the bins, plus the bin."""

    name = "units"

    def __init__(self) -> None:
        self.width = 0
        self.rows = 0
        self._keys = self._counts = torch.zeros(0, dtype=torch.int64)

    def update(self, features: Tensor) -> None:
        if self.rows and features.shape[1] != self.width:
            raise InputError(f"features have width {features.shape[1]}, those before had {self.width}")
        self.width = features.shape[1]
        self.rows += len(features)
        units = torch.arange(self.width, device=features.device) * _BINS
        for part in torch.split(features, max(1, _AT_ONCE // self.width)):
            keys, counts = torch.unique(bins_of(part, _DROPPED_BITS) + units, return_counts=True)
            self._keys, self._counts = _merged((self._keys, self._counts), (keys.cpu(), counts.cpu()))

    def __add__(self, other: UnitHistograms) -> UnitHistograms:
        if self.rows and other.rows and self.width != other.width:
            raise InputError(f"the two looks are at features of width {self.width} and {other.width}")
        merged = UnitHistograms()
        merged.width, merged.rows = max(self.width, other.width), self.rows + other.rows
        merged._keys, merged._counts = _merged((self._keys, self._counts), (other._keys, other._counts))
        return merged

    def packed(self) -> dict[str, Tensor]:
        return {"keys": self._keys, "counts": self._counts, "rows": torch.tensor([self.rows])}

    @classmethod
    def unpacked(cls, tensors: Mapping[str, Tensor]) -> Self:
        shape = (len(tensors.get("keys", ())),)
        keys = take(tensors, "keys", shape, torch.int64)
        counts = take(tensors, "counts", shape, torch.int64)
        rows = int(take(tensors, "rows", (1,), torch.int64))
        if not _sound(keys, counts, rows):
            raise FormatError(f"the histograms of its units do not count {rows} rows each")
        look = cls()
        look.width, look.rows = (int(keys[-1]) // _BINS + 1 if rows else 0), rows
        look._keys, look._counts = keys, counts
        return look

    def percentiles(self, percent: float) -> Tensor:
        """Of each unit the value below which ``percent`` of its activations lie, (D,) in float64."""
        rank = percent / 100 * (self.rows - 1)
        before_unit = torch.arange(self.width) * self.rows
        cumulative = self._counts.cumsum(0)
        places = torch.searchsorted(cumulative, before_unit + math.floor(rank), right=True)
        held = self._counts[places]
        before = cumulative[places] - held - before_unit
        share = ((rank - before + 0.5) / held).clamp(0, 1)
        bins = self._keys[places] % _BINS
        low, high = lower_edges(bins, _DROPPED_BITS), lower_edges(bins + 1, _DROPPED_BITS)
        return low + share * (high - low)

    def exact_percentiles(self, percent: float, again: Callable[[], Iterable[Tensor]]) -> Tensor:
        """The percentiles as NumPy defines them, from the data itself, some units at a time."""
        rank = percent / 100 * (self.rows - 1)
        found = []
        step = max(1, _COLUMN_ENTRIES // self.rows)
        for start in range(0, self.width, step):
            columns = torch.cat([rows[:, start : start + step].cpu() for rows in again()])
            ordered = columns.sort(dim=0).values
            low, high = ordered[math.floor(rank)].double(), ordered[math.ceil(rank)].double()
            found.append(low + (rank - math.floor(rank)) * (high - low))
        return torch.cat(found)


def _sound(keys: Tensor, counts: Tensor, rows: int) -> bool:
    """Whether the counts of every unit, from the first to the last, sum to as many rows."""
    if rows <= 0 or len(keys) == 0:
        return rows == len(keys) == 0
    width = int(keys[-1]) // _BINS + 1
    if int(keys[0]) < 0 or width > len(keys) or not bool((keys.diff() > 0).all() & (counts > 0).all()):
        return False
    of_units = torch.zeros(width, dtype=torch.int64).index_add_(0, keys // _BINS, counts)
    return bool((of_units == rows).all())


def _merged(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Keys and counts of both, in the order of the keys."""
    keys, places = torch.unique(torch.cat([one[0], other[0]]), return_inverse=True)
    return keys, torch.zeros_like(keys).index_add_(0, places, torch.cat([one[1], other[1]]))
