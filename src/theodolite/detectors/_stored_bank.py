"""A bank that stays on disk: the rows of a feature store, mapped block by block while they are compared.

The rows are those that a bank in memory would hold: all, or the same share of each class for the same seed.
The store is watched: a shard that is no longer the file whose checksum was compared is compared again before
it is read, and a search during which a shard changed is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from ..core.arrays import as_float
from ..core.errors import InputError
from ..features.manifest import shard_name
from ..features.store import FeatureStore
from ..reference.bank import Bank

# Queries worked at once: each tile of them reads the whole store, so it is larger than in memory.
STORED_QUERY_ROWS = 4_096
# Rows of a block, fewer where it would leave the cache between its view and its product (16 MiB of float32).
BLOCK_ROWS = 4_096
_CACHED_ENTRIES = 2**22

View: TypeAlias = Callable[[Tensor], Tensor]
Factors: TypeAlias = Callable[[Tensor], Tensor | None]


class StoredBank:
    """The rows of a store whose ids are ``chosen`` (none named: all), as ``view`` shows them.

    ``factors`` gives the number (n, 1) that each row is multiplied with, where that is all that ``view``
    does, else None. They are found once: 4 bytes a row, instead of a look at its length in every search.
    """

    def __init__(self, path: str | Path, view: View, chosen: Tensor, factors: Factors | None = None) -> None:
        self.store = FeatureStore(path)
        self._view = view
        self._chosen = chosen.cpu()
        self._factors = factors
        self._known: dict[tuple[int, int], Tensor | None] = {}
        self._places: dict[int, Tensor] = {}
        self.count = len(self._chosen) or len(self.store)
        self._block_rows = min(BLOCK_ROWS, max(1_024, _CACHED_ENTRIES // self.store.width // 8 * 8))

    def require(self, identity: Tensor) -> None:
        """Refuse a store that is not the one a detector was fitted with."""
        if not torch.equal(store_identity(self.store), identity.cpu()):
            raise InputError(
                f"{self.store.path} has changed since the detector was fitted on it: fit again, "
                f"or bring back the store it was fitted with"
            )

    def blocks(self) -> Iterator[Tensor]:
        """The bank in consecutive blocks of at most `BLOCK_ROWS` rows; memory holds one of them."""
        waiting: list[tuple[int, int, Tensor]] = []
        for part in self._raw():
            if waiting and sum(len(rows) for *_, rows in waiting) + len(part[2]) > self._block_rows:
                yield self._seen(waiting)
                waiting = []
            waiting.append(part)
        if waiting:
            yield self._seen(waiting)
        self._require_unchanged()

    def rows(self, places: Tensor) -> Tensor:
        """The rows at the given places (n,) of the bank. Reads the pages they lie on, not the whole store."""
        wanted = places.cpu()
        found = torch.zeros(len(wanted), self.store.width)
        start = 0
        for _, _, rows in self._raw():
            here = (wanted >= start) & (wanted < start + len(rows))
            if bool(here.any()):
                found[here] = as_float(rows[wanted[here] - start])
            start += len(rows)
        self._require_unchanged()
        return self._view(found)

    def _seen(self, parts: list[tuple[int, int, Tensor]]) -> Tensor:
        """Parts (shard, first row, rows) as one block of the bank."""
        factors = [self._factor(*part) for part in parts]
        known = [factor for factor in factors if factor is not None]
        if len(known) < len(parts):
            return self._view(torch.cat([as_float(rows) for *_, rows in parts]))
        block = torch.empty(sum(len(factor) for factor in known), self.store.width)
        start = 0
        for (*_, rows), factor in zip(parts, known, strict=True):
            torch.mul(rows, factor, out=block[start : start + len(rows)])
            start += len(rows)
        return block

    def _factor(self, shard: int, first: int, rows: Tensor) -> Tensor | None:
        if self._factors is None:
            return None
        if (shard, first) not in self._known:
            self._known[shard, first] = self._factors(as_float(rows))
        return self._known[shard, first]

    def _require_unchanged(self) -> None:
        """Refuse what was just read if it may not be what was compared: the shards are mapped, not owned."""
        changed = self.store.changed()
        if changed:
            raise InputError(
                f"{self.store.path}: {', '.join(map(shard_name, changed))} changed while it was searched: "
                f"score again; to change a store that is in use, write another one and fit on it"
            )

    def _raw(self) -> Iterator[tuple[int, int, Tensor]]:
        """(shard, first row, rows) of the bank as they lie on disk, at most a block of them."""
        for shard in range(self.store.shards):
            features = self.store.features(shard)
            for first in range(0, len(features), self._block_rows):
                part = slice(first, first + self._block_rows)
                rows = features[self._kept(shard)[part]] if len(self._chosen) else features[part]
                if len(rows):
                    yield shard, first, rows

    def _kept(self, shard: int) -> Tensor:
        """Places in a shard of the rows whose ids were chosen."""
        if shard not in self._places:
            ids = self.store.shard(shard).ids
            self._places[shard] = torch.isin(ids, self._chosen).nonzero().flatten()
        return self._places[shard]


def store_identity(store: FeatureStore) -> Tensor:
    """32 bytes that change with the store's key or with any of its features."""
    digest = hashlib.sha256(store.key.encode())
    for record in store.manifest.shards:
        digest.update(record.sha256.encode())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


def chosen_ids(store: FeatureStore, fraction: float, seed: int) -> Tensor:
    """Ids of the rows that a share of each class keeps; empty for the whole store."""
    if fraction == 1:
        return torch.zeros(0, dtype=torch.int64)
    bank = Bank(0, 0, share=fraction, seed=seed)
    for features, labels, ids in store:
        bank.add(features[:, :0], labels, ids)
    return bank.ids[bank.share_of_each_class(fraction)].sort().values
