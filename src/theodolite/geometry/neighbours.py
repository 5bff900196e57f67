"""Exact nearest neighbours by blocked matrix products: any device, bounded memory, no index to build."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch
from torch import Tensor

from ..core.graphs import fixed, recording

# Selection costs about the same for every block, so few large ones are fast. The size was chosen on a bank of
# 20,000 rows, which it holds whole; 8,192 and 16,384 were slower there.
BLOCK_ROWS = 20_480

# Rows that `_largest` looks at through their maximum.
_GROUP = 16


def top_similarities(
    queries: Tensor, bank: Tensor | Iterable[Tensor], k: int, *, by_distance: bool = False
) -> tuple[Tensor, Tensor]:
    """The k largest inner products of each query with the rows of the bank, and their places, best first.

    The bank is a tensor, or consecutive blocks of one that need not fit in memory. O(N·B·D) time for N
    queries and B bank rows; memory for N × 20,480 products at a time. Of unit rows the largest products are
    the nearest but for the rounding of their length, which ``by_distance`` takes into account: the values are
    then ⟨q, x⟩ − (‖x‖² − 1)/2. A row of zeros is left out of that, it has no length to round.
    """
    values = queries.new_empty(queries.shape[0], 0)
    places = torch.empty(queries.shape[0], 0, dtype=torch.int64, device=queries.device)
    start = 0
    for block in torch.split(bank, BLOCK_ROWS) if isinstance(bank, Tensor) else bank:
        block = block.to(queries)
        products = _products(block, queries)
        if by_distance:
            squares = block.square().sum(dim=1, keepdim=True)
            products.sub_(squares.sub(1).div_(2).masked_fill_(squares == 0, 0))
        best, rows = _largest(products, k)
        values = torch.cat([values, best], dim=1)
        places = torch.cat([places, rows + start], dim=1)
        start += fixed(block.shape[0])
        values, chosen = values.topk(min(k, fixed(values.shape[1])), dim=1)
        places = places.gather(1, chosen)
    return values, places


def _products(block: Tensor, queries: Tensor) -> Tensor:
    """Bank by queries: this way round the product runs a fifth faster than queries by bank."""
    if recording():
        return torch.mm(block, queries.T)
    products = _room(len(block) * len(queries), queries).view(len(block), len(queries))
    return torch.mm(block, queries.T, out=products)


def query_rows(device: torch.device) -> int:
    """Queries worked at once."""
    return 1_024 if device.type == "cpu" else 16_384


class _Rooms(threading.local):
    def __init__(self) -> None:
        self.by_kind: dict[tuple[torch.dtype, torch.device], Tensor] = {}


_rooms = _Rooms()


def _room(entries: int, like: Tensor) -> Tensor:
    """Space for products, the same in every call of a thread: fresh pages cost as much time as the search."""
    key = like.dtype, like.device
    room = _rooms.by_kind.get(key)
    if room is None or room.numel() < entries:
        # An inference tensor could not be written to by a later search outside inference mode.
        with torch.inference_mode(mode=False):
            room = torch.empty(entries, dtype=like.dtype, device=like.device)
        _rooms.by_kind[key] = room
    return room[:entries]


def _largest(products: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of each column and their rows, as (columns, k) and in no order.

    They lie in the k groups of rows with the largest maxima: a search among the maxima, then one within those
    groups, touches far fewer entries than a search of the column.
    """
    height = fixed(products.shape[0])
    groups = height // _GROUP
    if groups < 4 * k:
        best = products.T.topk(min(k, height), dim=1, sorted=False)
        return best.values, best.indices
    # Group g holds the rows g, g + groups, g + 2·groups, …: maxima are taken along whole rows.
    whole = groups * _GROUP
    maxima = torch.unflatten(products[:whole], 0, (_GROUP, groups)).amax(dim=0)
    promising = maxima.T.contiguous().topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, whole, groups, device=products.device)
    rest = torch.arange(whole, height, device=products.device).expand(products.shape[1], -1)
    rows = torch.cat([(promising[:, None] + steps[:, None]).flatten(1), rest], dim=1)
    best = products.T.gather(1, rows).topk(k, dim=1, sorted=False)
    return best.values, rows.gather(1, best.indices)
