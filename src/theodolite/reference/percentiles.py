"""Percentiles of every activation in a stream: a histogram whose bins follow the float format.

A bin is a sign, an exponent and eleven bits of mantissa: values are told apart to 0.05 % wherever they lie.
Counts are exact, mergeable and independent of order; memory is constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Self

import torch
from torch import Tensor

from ..core.errors import FormatError
from .looks import Look
from .storage import take

_DROPPED_BITS = 12
_BINS = 2 ** (32 - _DROPPED_BITS)


def bins_of(values: Tensor, dropped: int = _DROPPED_BITS) -> Tensor:
    """Bin numbers from 0 on that grow with the values: float32 bits, made monotone, less the last ones."""
    bits = values.to(torch.float32).contiguous().view(torch.int32)
    monotone = bits.bitwise_xor((bits >> 31).bitwise_and(0x7FFFFFFF))
    return (monotone >> dropped).to(torch.int64).add(2 ** (31 - dropped))


def lower_edges(bins: Tensor, dropped: int = _DROPPED_BITS) -> Tensor:
    """The least value in each of these bins, in float64."""
    monotone = ((bins - 2 ** (31 - dropped)) << dropped).to(torch.int32)
    bits = monotone ^ ((monotone >> 31) & 0x7FFFFFFF)
    edges: Tensor = bits.view(torch.float32).to(torch.float64)
    return edges


class ActivationHistogram(Look):
    """How often each bin was seen."""

    name = "histogram"

    def __init__(self) -> None:
        self.counts = torch.zeros(_BINS, dtype=torch.int64)

    def update(self, features: Tensor) -> None:
        self.counts += torch.bincount(bins_of(features).flatten(), minlength=_BINS).cpu()

    def __add__(self, other: ActivationHistogram) -> ActivationHistogram:
        merged = ActivationHistogram()
        merged.counts = self.counts + other.counts
        return merged

    def packed(self) -> dict[str, Tensor]:
        """The bins that were seen, and how often."""
        bins = self.counts.nonzero().flatten()
        return {"bins": bins, "counts": self.counts[bins]}

    @classmethod
    def unpacked(cls, tensors: Mapping[str, Tensor]) -> Self:
        shape = (len(tensors.get("bins", ())),)
        bins = take(tensors, "bins", shape, torch.int64)
        counts = take(tensors, "counts", shape, torch.int64)
        if len(bins) and not 0 <= int(bins.min()) <= int(bins.max()) < _BINS:
            raise FormatError("the bins of its histogram are none")
        histogram = cls()
        histogram.counts[bins] = counts
        return histogram

    def percentile(self, percent: float) -> float:
        """The value below which ``percent`` of the activations lie, interpolated within its bin."""
        rank = percent / 100 * (int(self.counts.sum()) - 1)
        key, before = self._bin_of(rank)
        share = (rank - before + 0.5) / int(self.counts[key])
        low, high = lower_edges(torch.tensor([key, key + 1])).tolist()
        return float(low + min(max(share, 0.0), 1.0) * (high - low))

    def exact_percentile(self, percent: float, again: Callable[[], Iterable[Tensor]]) -> float:
        """The percentile as NumPy defines it, from a second look at the two bins that hold it."""
        rank = percent / 100 * (int(self.counts.sum()) - 1)
        low = self._order_statistic(math.floor(rank), again)
        high = self._order_statistic(math.ceil(rank), again)
        return low + (rank - math.floor(rank)) * (high - low)

    def _order_statistic(self, rank: int, again: Callable[[], Iterable[Tensor]]) -> float:
        key, before = self._bin_of(rank)
        inside = torch.cat([rows[bins_of(rows) == key] for rows in again()])
        return float(inside.sort().values[rank - before])

    def _bin_of(self, rank: float) -> tuple[int, int]:
        """The bin that holds a rank, and how many activations lie in the bins before it."""
        cumulative = self.counts.cumsum(dim=0)
        key = int((cumulative > math.floor(rank)).nonzero()[0])
        return key, int(cumulative[key] - self.counts[key])
