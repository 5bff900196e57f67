"""Exact nearest neighbours by blocked matrix products: any device, bounded memory, no index to build."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

BLOCK_ROWS = 8_192

# Columns that `_largest` looks at through their maximum.
_GROUP = 16


def top_similarities(queries: Tensor, bank: Tensor | Iterable[Tensor], k: int) -> tuple[Tensor, Tensor]:
    """The k largest inner products of each query with the rows of the bank, and their places, best first.

    The bank is a tensor, or consecutive blocks of one that need not fit in memory. O(N·B·D) time for N
    queries and B bank rows; memory for N × 8,192 products at a time.
    """
    values = queries.new_empty(len(queries), 0)
    places = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
    room = queries.new_empty(0)
    start = 0
    for block in torch.split(bank, BLOCK_ROWS) if isinstance(bank, Tensor) else bank:
        if room.numel() < len(queries) * len(block):
            # Used again for the next block: fresh pages would cost as much time as the search in them.
            room = queries.new_empty(len(queries) * len(block))
        best, columns = _largest(_products(queries, block.to(queries), room), k)
        values = torch.cat([values, best], dim=1)
        places = torch.cat([places, columns + start], dim=1)
        start += len(block)
        values, chosen = values.topk(min(k, values.shape[1]), dim=1)
        places = places.gather(1, chosen)
    return values, places


def query_rows(device: torch.device) -> int:
    """Queries worked at once."""
    return 1_024 if device.type == "cpu" else 16_384


def _products(queries: Tensor, block: Tensor, room: Tensor) -> Tensor:
    """queries @ blockᵀ, by NumPy's BLAS on a CPU: on AMD processors it is a fifth faster than torch's."""
    products = room[: len(queries) * len(block)].view(len(queries), len(block))
    if queries.device.type == "cpu" and queries.dtype == torch.float32:
        np.matmul(queries.numpy(), block.numpy().T, out=products.numpy())
        return products
    return torch.mm(queries, block.T, out=products)


def _largest(products: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of each row and their columns, in no order.

    They lie in the k groups of columns with the largest maxima: a search among the maxima, then one within
    those groups, touches far fewer entries than a search of the row.
    """
    rows, width = products.shape
    groups = width // _GROUP
    if groups < 4 * k:
        best = products.topk(min(k, width), dim=1, sorted=False)
        return best.values, best.indices
    # Group g holds the columns g, g + groups, g + 2·groups, …: maxima are taken along whole cache lines.
    whole = groups * _GROUP
    maxima = torch.unflatten(products[:, :whole], 1, (_GROUP, groups)).amax(dim=1)
    promising = maxima.topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, whole, groups, device=products.device)
    rest = torch.arange(whole, width, device=products.device).expand(rows, -1)
    columns = torch.cat([(promising[:, None] + steps[:, None]).flatten(1), rest], dim=1)
    best = products.gather(1, columns).topk(k, dim=1, sorted=False)
    return best.values, columns.gather(1, best.indices)
