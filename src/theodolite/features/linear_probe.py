"""A linear probe: a head trained on frozen features, which makes a classifier of any encoder.

The settings are those of the paper's CLIP experiments: Adam with a rate of 1e-4, halved after each third of
30 epochs, batches of 512. O(epochs · N · D · C) time; memory holds one block of a store's shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..core.arrays import ArrayLike, as_float, as_labels, as_matrix, as_tensor, require_finite
from ..core.errors import InputError
from ..core.files import write_tensors
from ..core.plain import JsonValue
from ..reference.head import Head
from ..reference.unit_features import UNIT_FEATURES
from .store import FeatureStore

FORMAT = "theodolite-probe/1"
EPOCHS, LEARNING_RATE, BATCH_SIZE = 30, 1e-4, 512
# Entries of features in memory at once: 512 MiB of float32.
_BLOCK_ENTRIES = 2**27

Told: TypeAlias = Callable[[int, float, float], None]


def train_probe(
    features: ArrayLike | FeatureStore,
    labels: ArrayLike | None = None,
    *,
    classes: int | None = None,
    epochs: int = EPOCHS,
    learning_rate: float = LEARNING_RATE,
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Told = lambda _epoch, _loss, _accuracy: None,
) -> Head:
    """A head trained on features (N, D) and labels (N,), or on a feature store whose samples have labels.

    ``classes`` is by default the highest label plus one. ``progress`` gets the epoch (from 1), the mean loss
    and the accuracy on the training data during it. The same seed gives the same head.
    """
    if min(epochs, batch_size) < 1 or not learning_rate > 0:
        raise InputError(
            f"epochs and batch_size must be at least 1 and learning_rate above 0, "
            f"got {epochs}, {batch_size} and {learning_rate}"
        )
    blocks = _blocks_of(features, labels)
    counted = blocks.highest_label() + 1
    classes = counted if classes is None else classes
    if not 2 <= counted <= classes:
        raise InputError(
            f"labels go up to {counted - 1}: a probe of {classes} classes cannot be trained on them"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = nn.Linear(blocks.width, classes).to(device)
    optimiser = torch.optim.Adam(layer.parameters(), lr=learning_rate)
    milestones = [max(1, round(epochs / 3)), max(1, round(2 * epochs / 3))]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones, gamma=0.5)
    rng = torch.Generator().manual_seed(seed)
    for epoch in range(1, epochs + 1):
        loss, right, seen = 0.0, 0, 0
        for rows, targets in _batches(blocks, batch_size, rng):
            batch, wanted = rows.to(device), targets.to(device)
            logits = layer(batch)
            error = functional.cross_entropy(logits, wanted)
            optimiser.zero_grad(set_to_none=True)
            error.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            loss += float(error.detach()) * len(batch)
            right += int((logits.argmax(dim=1) == wanted).sum())
            seen += len(batch)
        schedule.step()
        progress(epoch, loss / seen, right / seen)
    return Head.from_linear(layer.cpu())


def save_probe(head: Head, path: str | Path, *, model: str | None = None) -> None:
    """Write a head as a file for ``?linear=`` of a model, or for ``head.safetensors`` of a feature folder.

    A cosine head stays one. ``model`` is the one whose features it is for, where that is known.
    """
    said: dict[str, JsonValue] = {"format": FORMAT}
    if model is not None:
        said["model"] = model
    if head.unit_features:
        said[UNIT_FEATURES] = True
    write_tensors(Path(path), {"weight": head.weight, "bias": head.bias}, said)


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

    def blocks(self, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:  # noqa: ARG002
        yield self.features, self.labels


class _Shards:
    """A store: its shards in random order, as many at a time as fit a block."""

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

    def blocks(self, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        together = max(1, _BLOCK_ENTRIES // (self.store.manifest.shard_rows * self.width))
        for group in torch.split(torch.randperm(self.store.shards, generator=rng), together):
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


def _batches(
    blocks: _Arrays | _Shards, batch_size: int, rng: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of every row once, shuffled within each block."""
    for features, labels in blocks.blocks(rng):
        for rows in torch.split(torch.randperm(len(features), generator=rng), batch_size):
            yield features[rows], labels[rows]
