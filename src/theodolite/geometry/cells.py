"""Approximate nearest neighbours: a bank in cells around centres, and a search of the nearest cells.

Unit rows belong to the centre with the largest inner product, and lie cell by cell in the bank. A query is
compared with all L centres and with the rows of p cells: O(N·(L + B·p/L)·D) time instead of O(N·B·D). What it
finds is at most as near as what an exact search finds; how often it is the same is the recall.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .neighbours import top_similarities

# Rows a cell that centres are learnt from, and rounds of k-means: more moved the recall by less than 0.01.
_ROWS_A_CELL = 64
_ROUNDS = 8
_TILE_ROWS = 8_192
# Entries of the candidates that queries worked at once have.
_CANDIDATES = 2**22


class Cells(NamedTuple):
    """Centres (L, D), and the first row of every cell in the bank, ending with the number of rows."""

    centres: Tensor
    starts: Tensor

    def fewest_probes(self, k: int) -> int:
        """Cells that hold k rows together, whichever they are."""
        total = self.starts.diff().sort().values.cumsum(0)
        wanted = min(k, int(total[-1]))
        short = int((total < wanted).sum())
        return min(short + 1, len(total))


def cell_count(rows: int) -> int:
    """√B cells: then the centres cost about as much as one cell."""
    return max(1, round(math.sqrt(rows)))


def in_cells(bank: Tensor) -> tuple[Cells, Tensor]:
    """Cells of unit rows in random order, and the order that lays the rows cell by cell."""
    count = cell_count(len(bank))
    centres = bank[:count].float()
    sample = bank[: count * _ROWS_A_CELL]
    for _ in range(_ROUNDS):
        centres = _moved(centres, sample)
    cell = _nearest_centre(bank, centres)
    sizes = torch.bincount(cell, minlength=count)
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Cells(centres, starts), cell.argsort(stable=True)


def probed_similarities(
    queries: Tensor, bank: Tensor, cells: Cells, k: int, probes: int, *, by_distance: bool = False
) -> tuple[Tensor, Tensor]:
    """What `top_similarities` gives, of the rows in the ``probes`` cells whose centres are nearest.

    These must hold k rows together: `Cells.fewest_probes`.
    """
    width = min(k, int(cells.starts.diff().max()))
    parts = [
        _probed(part, bank, cells, min(k, len(bank)), probes, by_distance)
        for part in torch.split(queries, max(16, _CANDIDATES // (probes * width)))
    ]
    return torch.cat([values for values, _ in parts]), torch.cat([places for _, places in parts])


def _probed(
    queries: Tensor, bank: Tensor, cells: Cells, k: int, probes: int, by_distance: bool
) -> tuple[Tensor, Tensor]:
    # In float64: which of two cells is nearer must not turn on the rounding of a batch.
    nearness = torch.mm(queries.double(), cells.centres.to(queries.device, torch.float64).T)
    chosen = nearness.topk(probes, dim=1, sorted=False).indices
    cell, order = chosen.flatten().sort(stable=True)
    asked, asking = torch.unique_consecutive(cell, return_counts=True)
    starts = cells.starts.tolist()
    width = min(k, int(cells.starts.diff().max()))
    values = queries.new_full((chosen.numel(), width), -torch.inf)
    places = torch.zeros(chosen.numel(), width, dtype=torch.int64, device=queries.device)
    for index, pairs in zip(asked.tolist(), torch.split(order, asking.tolist()), strict=True):
        start, stop = starts[index], starts[index + 1]
        if start == stop:
            continue
        rows = bank[start:stop].to(queries)
        products = torch.mm(queries[pairs // probes], rows.T)
        if by_distance:
            squares = rows.square().sum(dim=1)
            products.sub_(squares.sub(1).div_(2).masked_fill_(squares == 0, 0))
        best = products.topk(min(k, stop - start), dim=1, sorted=False)
        values[pairs, : best.values.shape[1]] = best.values
        places[pairs, : best.values.shape[1]] = best.indices + start
    best = values.view(len(queries), -1).topk(k, dim=1)
    return best.values, places.view(len(queries), -1).gather(1, best.indices)


def _moved(centres: Tensor, sample: Tensor) -> Tensor:
    """One round of k-means on the sphere; a centre that no row is near stays where it is."""
    cell = _nearest_centre(sample, centres)
    total = torch.zeros_like(centres, dtype=torch.float64)
    for rows, belongs in zip(torch.split(sample, _TILE_ROWS), torch.split(cell, _TILE_ROWS), strict=True):
        total.index_add_(0, belongs, rows.double())
    length = torch.linalg.vector_norm(total, dim=1, keepdim=True)
    return torch.where(length > 0, total / length.clamp_min(1e-300), centres.double()).float()


def _nearest_centre(rows: Tensor, centres: Tensor) -> Tensor:
    return torch.cat(
        [
            top_similarities(part.float(), centres, 1, order_only=True)[1][:, 0]
            for part in torch.split(rows, _TILE_ROWS)
        ]
    )
