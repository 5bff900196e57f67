"""What a probe learns from: labelled features in memory or in a store, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor

from ..core.arrays import ArrayLike, as_float, as_labels, as_matrix, as_tensor, require_finite
from ..core.errors import InputError
from ..reference.head import unit_rows
from .store import FeatureStore

# Entries of features in memory at once: 512 MiB of float32.
_BLOCK_ENTRIES = 2**27

# Told after every pass: which it was (from 1), the mean loss, the share of right answers.
Told: TypeAlias = Callable[[int, float, float], None]


class ProbeData:
    """Features (N, D) with labels 0..C−1, as rows of unit length where that is asked for.

    ``classes`` is by default the highest label plus one.
    """

    def __init__(
        self,
        features: ArrayLike | FeatureStore,
        labels: ArrayLike | None,
        classes: int | None,
        *,
        unit_features: bool,
    ) -> None:
        self._blocks = _blocks_of(features, labels)
        self._unit = unit_features
        self.width = self._blocks.width
        counted = self._blocks.highest_label() + 1
        self.classes = counted if classes is None else classes
        if not 2 <= counted <= self.classes:
            raise InputError(
                f"labels go up to {counted - 1}: a probe of {self.classes} classes cannot be trained on them"
            )

    def shuffled(self, rows: int, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of every row once, shuffled within each block."""
        for features, labels in self._blocks.blocks(rng):
            for part in torch.split(torch.randperm(len(features), generator=rng), rows):
                yield self._seen(features[part]), labels[part]

    def in_order(self, rows: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of every row once, the same in every pass."""
        for features, labels in self._blocks.blocks(None):
            for part, known in zip(torch.split(features, rows), torch.split(labels, rows), strict=True):
                yield self._seen(part), known

    def _seen(self, rows: Tensor) -> Tensor:
        return unit_rows(rows) if self._unit else rows


class _Arrays:
    """Features in memory: one block."""

    def __init__(self, features: ArrayLike, labels: ArrayLike | None) -> None:
        if labels is None:
            raise InputError("labels are missing: a probe learns from labelled features")
        self.features = as_float(as_matrix(features, "features", None, ""))
        require_finite(self.features, "features")
        highest = int(as_tensor(labels, "labels").max()) if len(labels) else 0
        self.labels = as_labels(labels, len(self.features), highest + 1)
        self.width = self.features.shape[1]

    def highest_label(self) -> int:
        return int(self.labels.max())

    def blocks(self, rng: torch.Generator | None) -> Iterator[tuple[Tensor, Tensor]]:  # noqa: ARG002
        yield self.features, self.labels


class _Shards:
    """A store: its shards, in random order with an ``rng``, as many at a time as fit a block."""

    def __init__(self, store: FeatureStore) -> None:
        if not store.labelled:
            raise InputError(
                f"{store.path} has samples without labels: a probe learns from labelled features"
            )
        self.store = store
        self.width = store.width

    def highest_label(self) -> int:
        labels = (self.store.shard(index).labels for index in range(self.store.shards))
        return max((int(part.max()) for part in labels if len(part)), default=-1)

    def blocks(self, rng: torch.Generator | None) -> Iterator[tuple[Tensor, Tensor]]:
        together = max(1, _BLOCK_ENTRIES // (self.store.manifest.shard_rows * self.width))
        count = self.store.shards
        order = torch.arange(count) if rng is None else torch.randperm(count, generator=rng)
        for group in torch.split(order, together):
            shards = [self.store.shard(int(index)) for index in group]
            yield (
                torch.cat([as_float(shard.features) for shard in shards]),
                torch.cat([shard.labels for shard in shards]).long(),
            )


def _blocks_of(features: ArrayLike | FeatureStore, labels: ArrayLike | None) -> _Arrays | _Shards:
    if not isinstance(features, FeatureStore):
        return _Arrays(features, labels)
    if labels is not None:
        raise InputError("a feature store has labels of its own: leave labels out")
    return _Shards(features)
