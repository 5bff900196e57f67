"""A bank that stays on disk: the rows of a feature store, mapped block by block while they are compared.

The rows are those that a bank in memory would hold: all, or the same share of each class for the same seed.
The store is watched: a shard that is no longer the file whose checksum was compared is compared again before
it is read, and a search during which a shard changed is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..core.arrays import as_float
from ..core.errors import InputError
from ..features.manifest import shard_name
from ..features.store import FeatureStore
from ..geometry.neighbours import BLOCK_ROWS
from ..reference.bank import Bank

# Queries worked at once: each tile of them reads the whole store, so it is larger than in memory.
STORED_QUERY_ROWS = 4_096


class StoredBank:
    """The rows of a store whose ids are ``chosen`` (none named: all), as ``view`` shows them."""

    def __init__(self, path: str | Path, view: Callable[[Tensor], Tensor], chosen: Tensor) -> None:
        self.store = FeatureStore(path)
        self._view = view
        self._chosen = chosen.cpu()
        self.count = len(self._chosen) or len(self.store)

    def require(self, identity: Tensor) -> None:
        """Refuse a store that is not the one a detector was fitted with."""
        if not torch.equal(store_identity(self.store), identity.cpu()):
            raise InputError(
                f"{self.store.path} has changed since the detector was fitted on it: fit again, "
                f"or bring back the store it was fitted with"
            )

    def blocks(self) -> Iterator[Tensor]:
        """The bank in consecutive blocks of at most `BLOCK_ROWS` rows; memory holds one of them."""
        waiting: list[Tensor] = []
        for rows in self._raw():
            if waiting and sum(map(len, waiting)) + len(rows) > BLOCK_ROWS:
                yield self._view(torch.cat(waiting))
                waiting = []
            waiting.append(as_float(rows))
        if waiting:
            yield self._view(torch.cat(waiting))
        self._require_unchanged()

    def rows(self, places: Tensor) -> Tensor:
        """The rows at the given places (n,) of the bank. Reads the pages they lie on, not the whole store."""
        wanted = places.cpu()
        found = torch.zeros(len(wanted), self.store.width)
        start = 0
        for rows in self._raw():
            here = (wanted >= start) & (wanted < start + len(rows))
            if bool(here.any()):
                found[here] = as_float(rows[wanted[here] - start])
            start += len(rows)
        self._require_unchanged()
        return self._view(found)

    def _require_unchanged(self) -> None:
        """Refuse what was just read if it may not be what was compared: the shards are mapped, not owned."""
        changed = self.store.changed()
        if changed:
            raise InputError(
                f"{self.store.path}: {', '.join(map(shard_name, changed))} changed while it was searched: "
                f"score again; to change a store that is in use, write another one and fit on it"
            )

    def _raw(self) -> Iterator[Tensor]:
        for features, _, ids in self.store.batches(BLOCK_ROWS):
            rows = features if len(self._chosen) == 0 else features[torch.isin(ids, self._chosen)]
            if len(rows):
                yield rows


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
