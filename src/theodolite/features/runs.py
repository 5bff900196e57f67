"""Runs of neighbouring rows of stores and of files of features: what one machine of several reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ..reference.reference import Batch
from .arrays import ArrayParts, FeatureArray
from .store import FeatureStore, StoreParts, number_of


class RowRuns:
    """The rows of each part that a range of their own names, as batches. Shards without any are not read."""

    def __init__(self, data: StoreParts | ArrayParts, runs: Sequence[range]) -> None:
        self.data = data
        self.runs = tuple(runs)

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __iter__(self) -> Iterator[Batch]:
        """Labels are None unless every row of all the data has one."""
        parts: tuple[FeatureStore | FeatureArray, ...] = self.data.parts
        for part, run in zip(parts, self.runs, strict=True):
            read = _of_store(part, run) if isinstance(part, FeatureStore) else _of_array(part, run)
            for features, labels, ids in read:
                yield features, labels if self.data.labelled else None, ids


def _of_store(store: FeatureStore, run: range) -> Iterator[Batch]:
    start = 0
    for index, record in enumerate(store.manifest.shards):
        here = _within(run, start, record.rows)
        start += record.rows
        if here.stop > here.start:
            shard = store.shard(index)
            yield shard.features[here], shard.labels[here], shard.ids[here]


def _of_array(array: FeatureArray, run: range) -> Iterator[Batch]:
    start = 0
    for features, labels, names in array.blocks():
        here = _within(run, start, len(features))
        start += len(features)
        if here.stop > here.start:
            ids = torch.tensor([number_of(name) for name in names[here]], dtype=torch.int64)
            yield features[here], None if labels is None else labels[here], ids
        if start >= run.stop:
            return


def _within(run: range, start: int, rows: int) -> slice:
    """The rows of a block, which begins at ``start``, that lie in a run."""
    return slice(max(run.start - start, 0), max(min(run.stop - start, rows), 0))
