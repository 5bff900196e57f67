"""Percentiles of every activation in a stream: a histogram whose bins follow the float format.

A bin is a sign, an exponent and eleven bits of mantissa: values are told apart to 0.05 % wherever they lie.
Counts are exact, mergeable and independent of order; memory is constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

_DROPPED_BITS = 12
_BINS = 2 ** (32 - _DROPPED_BITS)


def _keys(values: Tensor) -> Tensor:
    """Bin numbers 0.._BINS−1 that grow with the values (float32 bits, made monotone)."""
    bits = values.to(torch.float32).contiguous().view(torch.int32)
    monotone = bits.bitwise_xor((bits >> 31).bitwise_and(0x7FFFFFFF))
    return (monotone >> _DROPPED_BITS).to(torch.int64).add(_BINS // 2)


def _lower_edge(key: int) -> float:
    monotone = torch.tensor((key - _BINS // 2) << _DROPPED_BITS, dtype=torch.int32)
    bits = monotone ^ ((monotone >> 31) & 0x7FFFFFFF)
    return float(bits.view(torch.float32))


class ActivationHistogram:
    """How often each bin was seen."""

    def __init__(self) -> None:
        self.counts = torch.zeros(_BINS, dtype=torch.int64)

    def update(self, features: Tensor) -> None:
        self.counts += torch.bincount(_keys(features).flatten(), minlength=_BINS).cpu()

    def __add__(self, other: ActivationHistogram) -> ActivationHistogram:
        merged = ActivationHistogram()
        merged.counts = self.counts + other.counts
        return merged

    def percentile(self, percent: float) -> float:
        """The value below which ``percent`` of the activations lie, interpolated within its bin."""
        rank = percent / 100 * (int(self.counts.sum()) - 1)
        key, before = self._bin_of(rank)
        share = (rank - before + 0.5) / int(self.counts[key])
        low, high = _lower_edge(key), _lower_edge(key + 1)
        return low + min(max(share, 0.0), 1.0) * (high - low)

    def exact_percentile(self, percent: float, again: Callable[[], Iterable[Tensor]]) -> float:
        """The percentile as NumPy defines it, from a second look at the two bins that hold it."""
        rank = percent / 100 * (int(self.counts.sum()) - 1)
        low = self._order_statistic(math.floor(rank), again)
        high = self._order_statistic(math.ceil(rank), again)
        return low + (rank - math.floor(rank)) * (high - low)

    def _order_statistic(self, rank: int, again: Callable[[], Iterable[Tensor]]) -> float:
        key, before = self._bin_of(rank)
        inside = torch.cat([rows[_keys(rows) == key] for rows in again()])
        return float(inside.sort().values[rank - before])

    def _bin_of(self, rank: float) -> tuple[int, int]:
        """The bin that holds a rank, and how many activations lie in the bins before it."""
        cumulative = self.counts.cumsum(dim=0)
        key = int((cumulative > math.floor(rank)).nonzero()[0])
        return key, int(cumulative[key] - self.counts[key])
