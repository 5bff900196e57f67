"""Rows that are fitted on must not calibrate as well: found by their numbers, wherever they come from.

Two samples of one source may share rows without being one within the other, where features take few values
(the leaves of trees, a row of zeros). How many they would share is seen in the rows to fit on: as many as
have a twin among themselves. What goes beyond that was fitted on, and is refused. What does not go beyond it
is warned of: the same data given twice has a twin for every row as well.

A row is known by 64 bits of its numbers, rounded to the narrower precision of the two sides. A model gives
the same picture other last digits in a batch of another size, so features that only a pass gives (a loader, a
capture, a generator) are compared in half precision; their rows are written down while the fit reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..features.arrays import ArrayParts, FeatureArray
from ..features.store import FeatureStore, StoreParts
from ..reference.head import Head
from ..reference.reference import Batch, Batches, Reference, batches

# Share of the calibration data that may be known beyond twins: a data set has a few samples twice.
_TOLERATED = 0.01
# Standard deviations that the share of twins may be off by.
_DEVIATIONS = 4
# What can be read once more at little cost, and to the same numbers: no loader, no model, no iterator.
_AT_HAND = (Tensor, np.ndarray, list, tuple, FeatureArray, ArrayParts, FeatureStore, StoreParts)
# Precisions to compare in, the narrowest first; the half ones leave out what a batch's size changes.
HALF = (torch.bfloat16, torch.float16)
EXACT = (*HALF, torch.float32, torch.float64)
_GONE = (
    "the detector is fitted on a reference, whose rows are not there to be compared with: that the "
    "calibration data holds other samples is for you to know"
)
_PIECE = 512
_SEED = 0x5EED
_KEY_BYTES = 8


Data = TypeVar("Data")


class RowCheck:
    """What is fitted on against what is calibrated on: at once where both are at hand, else after the fit.

    A fit and a calibration must read what `read` gives them. A ``share`` of the data to fit on is not
    refused: its twins are those of the data.
    """

    def __init__(
        self, fitted: Sequence[object], calibration: object, head: Head | None, *, share: bool = False
    ) -> None:
        at_hand = all(isinstance(data, _AT_HAND) for data in (*fitted, calibration))
        precisions = EXACT if share or at_hand else HALF
        # What cannot be iterated over is no data of rows: a reference, or a mistake that the fit names.
        self._gone = any(isinstance(data, Reference) for data in fitted)
        self._fitted = [_Rows(data, head, precisions) for data in fitted if isinstance(data, Iterable)]
        self._held_out = _Rows(calibration, head, precisions)
        self._share = share
        self._told = self._compared() if at_hand else None
        self._done = at_hand

    def read(self, data: Data) -> Data | ArrayLike | Batches:
        """The data itself, or batches of it whose rows are written down on their way."""
        for rows in (*self._fitted, self._held_out):
            if rows.data is data:
                return rows.read()
        return data

    def doubt(self) -> str | None:
        """Why the promise may be broken, where it may be; refused where it is. To be asked after the fit."""
        return self._told if self._done else self._compared()

    def _compared(self) -> str | None:
        told = [_GONE if self._gone else None]
        if self._fitted:
            asked = self._held_out.keys("calibration")
            told += [self._verdict(rows.keys("features"), asked) for rows in self._fitted]
        return next(filter(None, told), None)

    def _verdict(self, known: _Keys, asked: _Keys) -> str | None:
        rows, held_out = known.against(asked)
        found = int(torch.isin(held_out, rows).sum())
        if found == 0:
            return None
        _, counts = torch.unique(rows, return_counts=True)
        twins = float(counts[counts > 1].sum()) / len(rows)
        return repeats(found, len(held_out), twins, len(rows), share=self._share)


def repeats(found: int, held_out: int, twins: float, rows: int, *, share: bool) -> str:
    """What it means that so many rows to calibrate on were ``found`` among the rows to fit on; refused where
    twins cannot explain it, unless they are a share of the same data."""
    noise = math.sqrt(twins * (1 - twins) * (1 / rows + 1 / held_out))
    told = f"{found:,} of {held_out:,} rows to calibrate on are fitted on as well"
    if not share and found > (twins + _TOLERATED + _DEVIATIONS * noise) * held_out:
        raise InputError(
            f"{told}: scores of data they were fitted on promise nothing. Remedy: calibrate on other "
            f"samples, or leave the calibration data out"
        )
    return (
        f"{told}, and {100 * twins:.1f} % of {rows:,} rows to fit on have a twin among themselves. "
        f"Either different samples have equal features, or the same data was given twice. If it was, "
        f"new data scores lower, and more of it is flagged than promised: leave out what is there twice"
    )


class _Rows:
    """Data, and the keys of its rows: read for them where it is at hand, else those of the last pass."""

    def __init__(self, data: object, head: Head | None, precisions: Sequence[torch.dtype]) -> None:
        self.data = data
        self._head = head
        self._precisions = precisions
        self._keys = _Keys(precisions)

    def __iter__(self) -> Iterator[Batch]:
        self._keys = _Keys(self._precisions)
        for batch in batches(self.data, None, None, self._head):  # type: ignore[arg-type]
            self._keys.add(batch[0])
            yield batch

    def read(self) -> ArrayLike | Batches:
        """What a fit is to read: arrays stay what they are, and what can be read once is seen to be so."""
        if isinstance(self.data, _AT_HAND):
            return self.data
        return iter(self) if isinstance(self.data, Iterator) else self

    def keys(self, name: str) -> _Keys:
        if isinstance(self.data, _AT_HAND):
            for _ in self:
                pass
        if not self._keys.rows:
            raise InputError(f"{name} is empty: it gave no batch, expected at least one row")
        return self._keys


class _Keys:
    """64 bits a row, in every precision that the rows may have to be rounded to."""

    def __init__(self, precisions: Sequence[torch.dtype]) -> None:
        self.rows = 0
        # Bytes, which grow in place: small tensors kept between large ones would hold the memory of both.
        self._keys = {precision: bytearray() for precision in precisions}
        self._holds = dict.fromkeys(precisions, True)

    def add(self, rows: Tensor) -> None:
        """In pieces: what hashing takes does not grow with the batch."""
        for piece in torch.split(rows, _PIECE):
            self._add(piece.cpu())

    def _add(self, rows: Tensor) -> None:
        self.rows += len(rows)
        for precision, keys in self._keys.items():
            if precision.itemsize > rows.dtype.itemsize:
                self._holds[precision] = False
                continue
            rounded = rows.to(precision)
            keys += hashed_rows(rounded).numpy().tobytes()
            self._holds[precision] = self._holds[precision] and torch.equal(rounded.to(rows.dtype), rows)

    def against(self, other: _Keys) -> tuple[Tensor, Tensor]:
        """Both sides' keys in the narrower of their precisions, which a copy has been rounded to."""
        narrower = min(narrowest(self._holds), narrowest(other._holds))
        precision = list(self._keys)[narrower]
        one, two = (
            torch.frombuffer(keys[precision], dtype=torch.int64) for keys in (self._keys, other._keys)
        )
        return one, two


def narrowest(holds: Mapping[torch.dtype, bool]) -> int:
    """The place of the narrowest precision that holds all rows; float32, or half, where none does."""
    holding = [place for place, held in enumerate(holds.values()) if held]
    return min(holding, default=min(len(holds) - 1, EXACT.index(torch.float32)))


def hashed_rows(rows: Tensor) -> Tensor:
    """64 bits a row: its numbers, as many at a time as fill 64 bits, under random odd factors."""
    missing = -rows.shape[1] % (_KEY_BYTES // rows.element_size())
    whole = rows + 0.0  # there are two zeros
    bits = (pad(whole, (0, missing)) if missing else whole).contiguous().view(torch.int64)
    return (bits >> 29).bitwise_xor_(bits).mul_(_factors(bits.shape[1])).sum(dim=1)


@lru_cache(maxsize=8)
def _factors(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(-(2**62), 2**62, (count,), generator=generator) * 2 + 1
