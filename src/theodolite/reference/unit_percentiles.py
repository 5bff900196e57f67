"""Percentiles of every unit of features in a stream: a histogram each, whose bins follow the float format.

A bin is a sign, an exponent and six bits of mantissa, 1.6 % wide. It knows its least and largest value and
how many entries have them; the others are interpolated between the two. So a value that many rows share, as
in units that are constant, quantised or saturated, is not passed by a threshold beside it. Only bins that
were seen are kept, a few hundred a unit. All of it is exact, mergeable and independent of order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Self

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


class _Bins(NamedTuple):
    """Bins that were seen, in the order of their keys: how many entries each has, the least and the largest
    of these, in float64, and how many are the least and the largest."""

    keys: Tensor
    counts: Tensor
    least: Tensor
    most: Tensor
    at_least: Tensor
    at_most: Tensor

    @classmethod
    def none(cls) -> _Bins:
        whole, real = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.float64)
        return cls(whole, whole, real, real, whole, whole)

    @classmethod
    def of(cls, rows: Tensor) -> _Bins:
        """Those of rows (n, D)."""
        units = torch.arange(rows.shape[1], device=rows.device) * _BINS
        keys, values = (bins_of(rows, _DROPPED_BITS) + units).flatten(), rows.double().flatten()
        ones = torch.ones_like(keys)
        return cls(*(part.cpu() for part in cls(keys, ones, values, values, ones, ones).gathered()))

    def gathered(self) -> _Bins:
        """With every key once."""
        keys, places = torch.unique(self.keys, return_inverse=True)
        nothing, real = torch.zeros_like(keys), torch.zeros(len(keys)).to(self.least)
        least = real.scatter_reduce(0, places, self.least, "amin", include_self=False)
        most = real.scatter_reduce(0, places, self.most, "amax", include_self=False)
        return _Bins(
            keys,
            nothing.index_add(0, places, self.counts),
            least,
            most,
            nothing.index_add(0, places, self.at_least * (self.least == least[places])),
            nothing.index_add(0, places, self.at_most * (self.most == most[places])),
        )

    def __or__(self, other: _Bins) -> _Bins:
        """The bins of both."""
        return _Bins(*(torch.cat(pair) for pair in zip(self, other, strict=True))).gathered()

    def value(self, places: Tensor, rank: Tensor) -> Tensor:
        """The entry of each bin with that many of the bin below it."""
        counts, least, most, at_least, at_most = (part[places] for part in self[1:])
        share = (rank - at_least + 1) / (counts - at_least - at_most + 1).clamp_min(1)
        between = least + share.clamp(0, 1) * (most - least)
        return torch.where(rank < at_least, least, torch.where(rank >= counts - at_most, most, between))


class UnitHistograms(Look):
    """How often each bin of each unit was seen; a key is the unit's number times the bins, plus the bin."""

    name = "units"

    def __init__(self) -> None:
        self.width = 0
        self.rows = 0
        self._bins = _Bins.none()

    def update(self, features: Tensor) -> None:
        if self.rows and features.shape[1] != self.width:
            raise InputError(f"features have width {features.shape[1]}, those before had {self.width}")
        self.width = features.shape[1]
        self.rows += len(features)
        for part in torch.split(features, max(1, _AT_ONCE // self.width)):
            self._bins = self._bins | _Bins.of(part)

    def __add__(self, other: UnitHistograms) -> UnitHistograms:
        if self.rows and other.rows and self.width != other.width:
            raise InputError(f"the two looks are at features of width {self.width} and {other.width}")
        merged = UnitHistograms()
        merged.width, merged.rows = max(self.width, other.width), self.rows + other.rows
        merged._bins = self._bins | other._bins
        return merged

    def packed(self) -> dict[str, Tensor]:
        return {**self._bins._asdict(), "rows": torch.tensor([self.rows])}

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
        low, high = (lower_edges(keys % _BINS + step, _DROPPED_BITS) for step in (0, 1))
        if "least" in tensors:
            least, most = (take(tensors, name, shape, torch.float64) for name in ("least", "most"))
            at_least, at_most = (take(tensors, name, shape, torch.int64) for name in ("at_least", "at_most"))
            held = (low <= least.float()) & (least <= most) & (most.float() <= high)
            held &= (at_least >= 0) & (at_least <= counts) & (at_most >= 0) & (at_most <= counts)
            if not bool(held.all()):
                raise FormatError("the values of its histograms are not those of their bins")
            look._bins = _Bins(keys, counts, least, most, at_least, at_most)
        else:  # a file that knows bins alone: their entries are anywhere between their edges
            look._bins = _Bins(keys, counts, low, high, torch.zeros_like(keys), torch.zeros_like(keys))
        return look

    def percentiles(self, percent: float) -> Tensor:
        """Of each unit the value below which ``percent`` of its activations lie, (D,) in float64."""
        rank = percent / 100 * (self.rows - 1)
        low, high = self._of_rank(math.floor(rank)), self._of_rank(math.ceil(rank))
        return low + (rank - math.floor(rank)) * (high - low)

    def _of_rank(self, rank: int) -> Tensor:
        """Of each unit the activation with so many below it, (D,)."""
        before_unit = torch.arange(self.width) * self.rows
        cumulative = self._bins.counts.cumsum(0)
        places = torch.searchsorted(cumulative, before_unit + rank, right=True)
        before = cumulative[places] - self._bins.counts[places] - before_unit
        return self._bins.value(places, rank - before)

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
