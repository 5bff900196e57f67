"""The rows that a part was fitted on, by their numbers: what calibration data is compared with later.

As `repeated` compares rows that are at hand, with keys of 64 bits a row in every precision; of many rows
those with the smallest keys are kept (`reference.seen`), and as large a share of the calibration rows is
compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import FormatError
from ..core.plain import JsonObject, to_plain
from ..reference.head import Head
from ..reference.reference import Batches, batches
from ..reference.seen import Seen
from ..reference.storage import pack_seen, unpack_seen
from .repeated import EXACT, hashed_rows, narrowest, repeats

# Keys of each precision: 1 MiB.
LIMIT = 2**17
# Fewer calibration rows than this, of all there are, say little.
_ENOUGH = 30
_PIECE = 512


@dataclass(frozen=True)
class RowCount:
    """How many rows were seen in a precision, and whether it ``holds`` them all without rounding."""

    rows: int
    holds: bool


class FittedRows:
    """Keys of the rows that were fitted on."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._seen = {precision: Seen(limit) for precision in EXACT}
        self._holds = dict.fromkeys(EXACT, True)

    def add(self, rows: Tensor) -> None:
        """Rows (n, D), in pieces: what hashing takes does not grow with the batch."""
        for piece in torch.split(rows.cpu(), _PIECE):
            for precision, seen in self._seen.items():
                if precision.itemsize > piece.dtype.itemsize:
                    self._holds[precision] = False
                    continue
                rounded = piece.to(precision)
                seen.add(hashed_rows(rounded))
                held = torch.equal(rounded.to(piece.dtype), piece)
                self._holds[precision] = self._holds[precision] and held

    def __add__(self, other: FittedRows) -> FittedRows:
        merged = FittedRows()
        for precision in EXACT:
            merged._seen[precision] = self._seen[precision] + other._seen[precision]
            merged._holds[precision] = self._holds[precision] and other._holds[precision]
        return merged

    def doubt(self, calibration: Batches, head: Head | None, *, share: bool) -> str | None:
        """Why rows to calibrate on may have been fitted on; refused where they were, unless they are a share.

        Also where too few of them can be compared to tell.
        """
        asked = FittedRows(limit=2**62)
        for rows, _, _ in batches(calibration, None, None, head):
            asked.add(rows)
        precision = EXACT[min(narrowest(self._holds), narrowest(asked._holds))]
        known, held_out = self._seen[precision], asked._seen[precision]
        compared, found = known.comparable(held_out)
        if found:
            twins = float(known.times[known.times > 1].sum()) / float(known.times.sum())
            return repeats(found, compared, twins, int(known.times.sum()), share=share)
        if not known.whole and compared < min(_ENOUGH, held_out.count):
            return (
                f"of {held_out.count:,} rows to calibrate on only {compared:,} could be compared with those "
                f"that were fitted on: that they are others is for you to know"
            )
        return None

    def packed(self) -> tuple[dict[str, Tensor], JsonObject]:
        """As tensors, and how many rows were seen in each precision."""
        tensors: dict[str, Tensor] = {}
        counts: JsonObject = {}
        for precision, seen in self._seen.items():
            tensors |= pack_seen(seen, f"rows.{_name(precision)}.")
            counts[_name(precision)] = to_plain(RowCount(seen.count, self._holds[precision]))
        return tensors, counts

    @classmethod
    def unpacked(cls, tensors: Mapping[str, Tensor], counts: Mapping[str, RowCount]) -> FittedRows:
        """What `packed` gave."""
        rows = cls()
        for precision in EXACT:
            name = _name(precision)
            if name not in counts:
                raise FormatError(f"its rows lack {name}")
            rows._holds[precision] = counts[name].holds
            rows._seen[precision] = unpack_seen(counts[name].rows, tensors, f"rows.{name}.", LIMIT)
        return rows


def _name(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")
