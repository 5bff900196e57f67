"""Exact nearest neighbours by blocked matrix products: any device, bounded memory, no index to build.

On a CPU the product is nearly all there is to pay. A block of products is small enough to stay in the last
cache while it is looked through, and a look is a comparison: of groups of entries with what the k-th best is
at least. What is larger waits, and is sorted in now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.graphs import fixed, recording
from .products import Products

# Rows of a bank that are looked through at once where a look costs the same for every block: in graphs and
# on other devices than a CPU.
BLOCK_ROWS = 20_480

# On a CPU: rows in a block, or more until it has a million products. Larger blocks leave the cache.
_CACHED_ROWS, _CACHED_PRODUCTS = 4_096, 2**20
# Rows in a block that comes from another precision, at least, and its entries at most, 16 MiB of float32.
_LEAST_ROWS, _CACHED_ENTRIES = 1_024, 2**22
# A block holds this many times k rows at least, so that few of them are among the best.
_ROWS_OF_K = 16
# Rows that are looked at through their maximum: where few are searched for, and where the best of all are.
_GROUP, _LARGE_GROUP = 8, 16


def top_similarities(
    queries: Tensor,
    bank: Tensor | Iterable[Tensor],
    k: int,
    *,
    by_distance: bool = False,
    order_only: bool = False,
) -> tuple[Tensor, Tensor]:
    """The k largest inner products of each query with the rows of the bank, and their places, best first.

    The bank is a tensor, or consecutive blocks of one that need not fit in memory; its rows are worked in the
    precision of the queries, a block at a time. O(N·B·D) time for N queries and B bank rows; memory for
    N × 20,480 products. Of unit rows the largest products are the nearest but for the rounding of their
    length, which ``by_distance`` takes into account: the values are then ⟨q, x⟩ − (‖x‖² − 1)/2. A row of
    zeros is left out of that, it has no length to round. ``order_only`` is for whoever wants the places: the
    products are the fastest there are, and their last digits not those of PyTorch's.
    """
    plan = _plan(queries, bank, k)
    kind = _Kind(by_distance, order_only)
    best = _search(queries, bank, k, plan, kind)
    values, places = best.found()
    missed = best.missed(values)
    if missed is not None:
        again = _search(queries[missed], bank, k, _Plan(BLOCK_ROWS), kind)
        values[missed], places[missed] = again.found()
    return values, places


class _Kind(NamedTuple):
    by_distance: bool
    order_only: bool


def query_rows(device: torch.device) -> int:
    """Queries worked at once."""
    return 1_024 if device.type == "cpu" else 16_384


def _search(queries: Tensor, bank: Tensor | Iterable[Tensor], k: int, plan: _Plan, kind: _Kind) -> _Best:
    best, with_queries = _Best(queries, k, plan.guess), Products(queries, plan.rows, fastest=kind.order_only)
    for block in _blocks(bank, plan.rows):
        block = block.to(queries)
        products = with_queries(block)
        if kind.by_distance:
            squares = block.square().sum(dim=1, keepdim=True)
            products.sub_(squares.sub(1).div_(2).masked_fill_(squares == 0, 0))
        best.offer(products)
    return best


def _plain(queries: Tensor) -> bool:
    """Whether the way is the same for all numbers: graphs have no other, a device would have to wait."""
    return recording() or queries.device.type != "cpu"


class _Plan(NamedTuple):
    """Rows of the bank in a block, and the rank in the first that the k-th best of all is taken to reach."""

    rows: int
    guess: int | None = None


def _plan(queries: Tensor, bank: Tensor | Iterable[Tensor], k: int) -> _Plan:
    """As many rows as the cache has room for, and a guess lower than k where a bank can be searched again.

    Of the k best of a bank in random order a share falls into the first block; the guess is its mean and four
    standard deviations more. Without it, blocks are large enough for k rows to be few of them, and the guess
    is k, which cannot be wrong: k of the first block are as good.
    """
    if _plain(queries):
        return _Plan(BLOCK_ROWS)
    rows = min(max(_CACHED_ROWS, _CACHED_PRODUCTS // max(1, len(queries))), BLOCK_ROWS)
    if isinstance(bank, Tensor) and bank.dtype != queries.dtype:  # a block is written before it is read
        rows = min(rows, max(_LEAST_ROWS, _CACHED_ENTRIES // queries.shape[1] // _GROUP * _GROUP))
    for larger in (rows, 2 * rows):
        if isinstance(bank, Tensor) and len(bank) >= 4 * larger:
            share = k * larger / len(bank)
            guess = min(k, round(share + 4 * share**0.5) + 2)
            if 3 * guess <= 2 * (larger // _GROUP):
                return _Plan(larger, guess)
    return _Plan(min(max(rows, _ROWS_OF_K * k // _GROUP * _GROUP), BLOCK_ROWS), k)


def _blocks(bank: Tensor | Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    for part in [bank] if isinstance(bank, Tensor) else bank:
        yield from torch.split(part, rows)


class _Best:
    """The k largest products of each query so far, in no order, and larger ones that wait to be sorted in.

    ``guess`` is the rank in the first block whose product is taken for what the k-th best is at least.
    """

    def __init__(self, queries: Tensor, k: int, guess: int | None) -> None:
        self._k = k
        self._guess = guess
        self._plain = _plain(queries)
        shape = (queries.shape[0], 0 if guess in (None, k) else k)
        self._values = queries.new_full(shape, -torch.inf)
        self._places = torch.zeros(shape, dtype=torch.int64, device=queries.device)
        self._least: Tensor | None = None
        self._guessed: Tensor | None = None
        self._seen = 0
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []

    def offer(self, products: Tensor) -> None:
        """Look through the products (rows, queries) of the next rows of the bank."""
        start = self._seen
        self._seen += fixed(products.shape[0])
        if self._plain or products.shape[0] % _GROUP:
            self._look_at_all(products, start)
            return
        maxima = _maxima(products, _GROUP)
        if self._guess is not None and start == 0 and len(maxima) >= self._guess:
            bound = maxima.T.contiguous().topk(self._guess, dim=1, sorted=False).values.amin(dim=1)
            self._least = self._guessed = bound.nextafter(bound.new_tensor(-torch.inf))
        found = None if self._least is None else _larger(products, maxima, self._least, 2 * self._k)
        if found is None:
            self._look_at_all(products, start)
            return
        queries, rows, values = found
        if len(queries):
            self._waiting.append((queries, rows + start, values))
        if sum(len(part[0]) for part in self._waiting) > 2 * self._k * products.shape[1]:
            self._settle()

    def found(self) -> tuple[Tensor, Tensor]:
        """Values and places (queries, k), best first; right but for the queries that were `missed`."""
        if self._plain:
            return self._values, self._places
        self._settle()
        values, order = self._values.sort(dim=1, descending=True)
        return values, self._places.gather(1, order)

    def missed(self, values: Tensor) -> Tensor | None:
        """Queries whose k-th best is below the guess, under which products were passed over; None if none."""
        if self._guessed is None or self._guess == self._k:
            return None
        below = values[:, -1] <= self._guessed
        return below if bool(below.any()) else None

    def _look_at_all(self, products: Tensor, start: int) -> None:
        self._settle()
        values, rows = _largest(products, self._k)
        self._merge(values, rows + start)

    def _settle(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._merge(*_laid_out(waiting, len(self._values)))

    def _merge(self, values: Tensor, places: Tensor) -> None:
        values = torch.cat([self._values, values], dim=1)
        places = torch.cat([self._places, places], dim=1)
        self._values, chosen = values.topk(min(self._k, fixed(values.shape[1])), dim=1, sorted=self._plain)
        self._places = places.gather(1, chosen)
        if not self._plain and self._values.shape[1] == self._k:
            least = self._values.amin(dim=1)
            self._least = least if self._least is None else torch.maximum(self._least, least)


def _maxima(products: Tensor, size: int) -> Tensor:
    """Of groups of rows: group g holds the rows g, g + groups, g + 2·groups, …, a pass along whole rows."""
    return torch.unflatten(products, 0, (size, -1)).amax(dim=0)


def _larger(
    products: Tensor, maxima: Tensor, least: Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Entries above ``least`` of their query as (queries, rows, values), in the order of the queries.

    None if they may be too many, more than ``most`` groups a query on average: rows that lie in the order of
    their classes come all at once.
    """
    groups, count = maxima.shape
    # Not “larger”: what is no number passes too, as it does in a sort, and is noticed by the score.
    query, group = (maxima <= least).logical_not_().T.contiguous().nonzero(as_tuple=True)
    if len(query) > most * count:
        return None
    values = products.view(_GROUP, -1).index_select(1, group * count + query)
    pair, step = (values <= least[query]).logical_not_().T.contiguous().nonzero(as_tuple=True)
    return query[pair], group[pair] + step * groups, values[step, pair]


def _laid_out(waiting: list[tuple[Tensor, Tensor, Tensor]], count: int) -> tuple[Tensor, Tensor]:
    """Values and places as (queries, entries), the shorter rows filled up with −∞."""
    sizes = [torch.bincount(queries, minlength=count) for queries, _, _ in waiting]
    total = torch.stack(sizes).sum(dim=0)
    width = int(total.max())
    first = torch.arange(0, count * width, width)
    values = waiting[0][2].new_full((count * width,), -torch.inf)
    places = torch.zeros(count * width, dtype=torch.int64)
    for (queries, rows, entries), size in zip(waiting, sizes, strict=True):
        spot = torch.arange(len(queries)) + (first - size.cumsum(0) + size)[queries]
        values[spot], places[spot] = entries, rows
        first += size
    return values.view(count, width), places.view(count, width)


def _largest(products: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of each column and their rows, as (columns, k) and in no order.

    They lie in the k groups of rows with the largest maxima: a search among the maxima, then one within those
    groups, touches far fewer entries than a search of the column.
    """
    height = fixed(products.shape[0])
    groups = height // _LARGE_GROUP
    if groups < 4 * k:
        best = products.T.topk(min(k, height), dim=1, sorted=False)
        return best.values, best.indices
    whole = groups * _LARGE_GROUP
    maxima = _maxima(products[:whole], _LARGE_GROUP)
    promising = maxima.T.contiguous().topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, whole, groups, device=products.device)
    rest = torch.arange(whole, height, device=products.device).expand(products.shape[1], -1)
    rows = torch.cat([(promising[:, None] + steps[:, None]).flatten(1), rest], dim=1)
    best = products.T.gather(1, rows).topk(k, dim=1, sorted=False)
    return best.values, rows.gather(1, best.indices)
