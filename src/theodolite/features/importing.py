"""Features in a file, with their head, as a feature store: `extract` where no model is to be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from ..core.errors import InputError
from ..core.files import sha256
from ..reference.head import Head
from .arrays import ArrayParts, Block, FeatureArray, open_array
from .head_files import head_digest
from .manifest import Recipe, listing_digest
from .settings import ExtractionSettings
from .store import FeatureStore
from .writer import Rows, StoreWriter

# What stands for the model of features whose model is not known.
IMPORTED = "features"
_LAYER = "head"


def import_features(
    data: str | Path,
    head: Head,
    output: str | Path | Callable[[Recipe], Path],
    *,
    settings: ExtractionSettings,
    progress: Callable[[int, int], None],
) -> FeatureStore:
    """The rows of a file in a store of their own, or go on where an earlier run stopped."""
    for option, value in (
        ("--layer", settings.layer),
        ("--limit", settings.limit),
        ("--part", settings.part),
    ):
        if value is not None:
            raise InputError(f"{option} is for images, but {data} holds features: leave it out")
    if Path(data).expanduser().is_dir():
        raise InputError(f"{data} is a folder of several sets of features: name one of its files")
    array = open_array(data)
    ArrayParts([array], head)  # of one width
    recipe = Recipe(
        model=IMPORTED,
        weights=head_digest(head),
        preprocess="none",
        layer=_LAYER,
        data=listing_digest([f"{array.name}\t{sha256(array.path)}"]),
        samples=len(array),
        dtype=settings.dtype,
    )
    writer = StoreWriter.open(
        output(recipe) if callable(output) else output,
        recipe,
        head,
        source=str(data),
        shard_rows=settings.shard_rows,
    )
    wanted = {*writer.missing(), *(writer.damaged() if settings.repair else ())}
    for index, block in enumerate(_shards(array, writer.manifest.shard_rows)):
        if index in wanted:
            labels = [None] * len(block.names) if block.labels is None else block.labels.tolist()
            writer.write(index, Rows([block.features], labels, list(block.names)))
        progress(min((index + 1) * writer.manifest.shard_rows, len(array)), len(array))
    return FeatureStore(writer.folder, recipe=recipe)


def _shards(array: FeatureArray, rows: int) -> Iterator[Block]:
    """The rows of a file in equal runs; a file may give them in pieces of its own."""
    features, names = torch.empty(0, array.width), list[str]()
    start = 0
    for block in array.blocks(rows):
        features, names = torch.cat([features, block.features.float()]), [*names, *block.names]
        while len(features) >= rows or start + len(features) == len(array) > start:
            labels = None if array.labels is None else array.labels[start : start + len(features[:rows])]
            yield Block(features[:rows], labels, names[:rows])
            start += len(features[:rows])
            features, names = features[rows:], names[rows:]
