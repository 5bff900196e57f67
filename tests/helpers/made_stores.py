"""Feature stores of features at hand, without a model or pictures."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from theodolite import FeatureStore, Head
from theodolite.features.manifest import Recipe
from theodolite.features.writer import Rows, StoreWriter

RECIPE = ("toy", "a" * 64, "plain", "fc")


def store_of(
    folder: Path, features: Tensor, labels: Tensor, head: Head, *, content: str = "b"
) -> FeatureStore:
    """A store in shards of 128 rows; ``content`` stands for the pictures it was made of."""
    names = [f"{row}.png" for row in range(len(features))]
    recipe = Recipe(*RECIPE, content * 64, samples=len(features))
    writer = StoreWriter.open(folder, recipe, head, source="toy", shard_rows=128)
    for index in writer.missing():
        samples = writer.samples(index)
        part = slice(samples.start, samples.stop)
        writer.write(index, Rows([features[part]], [int(label) for label in labels[part]], names[part]))
    return FeatureStore(folder)
