"""A bank in cells for an approximate search, with its recall measured when it is fitted.

The recall is the share of the k nearest rows that the search finds. It is measured on rows of the bank itself
against the exact search, and cells are added to the search until it is what was asked for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.arrays import as_float
from ..core.errors import FormatError, TheodoliteWarning
from ..geometry.cells import Cells, in_cells, probed_similarities
from ..geometry.neighbours import query_rows, top_similarities

# Rows of the bank that the recall is measured on: it is known to half a per cent and better.
_MEASURED_ON = 1_000
# Neighbours nearer than this, as 1 − cos, are told apart in float64: float32 knows a cosine to 1e-7.
CLOSE = 2.0**-10
# Products that are the same but for rounding.
_ROUNDING = {torch.float32: 1e-6, torch.float64: 1e-13}


class FittedCells(NamedTuple):
    """A bank that lies cell by cell, how many of them are searched, and the recall that this gave."""

    bank: Tensor
    cells: Cells
    probes: int
    recall: float


@dataclass(frozen=True)
class Approximation:
    """What an approximate search is: of ``cells`` cells ``probes`` are searched, with ``recall`` measured."""

    cells: int
    probes: int
    recall: float

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Approximation | None:
        """What the tensors of a fitted score say; None if its search is exact."""
        if "measured_recall" not in tensors:
            return None
        probes, recall = int(tensors["probes"]), float(tensors["measured_recall"])
        return cls(len(tensors["cell_centres"]), probes, recall)

    def __str__(self) -> str:
        return (
            f"approximate: {self.probes:,} of {self.cells:,} cells, which found {100 * self.recall:.1f} % of "
            f"the nearest rows at the fit"
        )


def fitted_cells(bank: Tensor, k: int, recall: float) -> FittedCells:
    """Cells of unit rows in random order, as few of them searched as give the recall that is asked for."""
    cells, order = in_cells(bank)
    count = len(cells.centres)
    # The last rows: of a large bank the centres were learnt from others.
    sample = as_float(bank[-_MEASURED_ON:])
    nearest = min(k + 1, len(bank))  # a row finds itself, too
    known = _last(sample, bank, nearest)
    if bool((known > 1 - CLOSE).any()):
        sample = sample.double()
        known = _last(sample, bank, nearest)
    bank = bank[order]  # not before: an exact search is faster in random order
    probes = cells.fewest_probes(nearest)
    while (measured := _recall(sample, known, bank, cells, nearest, probes)) < recall and probes < count:
        probes = min(count, math.ceil(1.25 * probes))
    if 4 * probes > count:
        warnings.warn(
            f"an approximate search with recall {recall:g} looks through {probes:,} of {count:,} cells of "
            f"this bank of {len(bank):,} rows, and is hardly faster than the exact one: leave out recall",
            TheodoliteWarning,
            stacklevel=2,
        )
    return FittedCells(bank, cells, probes, measured)


def require_cells(cells: Cells, found: Approximation, rows: int, width: int | None, k: int) -> None:
    """Refuse cells from a file that are not of this bank."""
    starts = cells.starts
    if not (
        starts.ndim == 1
        and len(starts) > 1
        and starts.dtype == torch.int64
        and int(starts[0]) == 0
        and int(starts[-1]) == rows
        and bool((starts.diff() >= 0).all())
        and cells.centres.shape == (len(starts) - 1, width)
        and cells.fewest_probes(k) <= found.probes <= len(starts) - 1
        and 0 <= found.recall <= 1
    ):
        raise FormatError("its cells are not those of its bank")


def _recall(sample: Tensor, known: Tensor, bank: Tensor, cells: Cells, nearest: int, probes: int) -> float:
    """By products, so that copies of a row count as one another; without the row that was asked for."""
    found = torch.cat(
        [
            probed_similarities(part, bank, cells, nearest, probes, by_distance=_by_distance(sample, bank))[0]
            for part in _tiles(sample)
        ]
    )
    hits = (found >= known[:, None] - _ROUNDING[sample.dtype]).sum(dim=1) - 1
    return 1.0 if nearest == 1 else float((hits / (nearest - 1)).clamp(0, 1).mean())


def _last(sample: Tensor, bank: Tensor, nearest: int) -> Tensor:
    """The products of the sample with the last of its nearest rows."""
    return torch.cat(
        [
            top_similarities(part, bank, nearest, by_distance=_by_distance(sample, bank), order_only=True)[0][
                :, -1
            ]
            for part in _tiles(sample)
        ]
    )


def _by_distance(sample: Tensor, bank: Tensor) -> bool:
    """As the score searches: a length matters where more digits are looked at, and where it is rounded."""
    return sample.dtype == torch.float64 or bank.dtype == torch.float16


def _tiles(rows: Tensor) -> tuple[Tensor, ...]:
    return torch.split(rows, query_rows(rows.device))
