"""The reference: what in-distribution data taught us. A head, statistics of the features, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from .arrays import ArrayLike, as_float, as_labels, as_matrix, as_tensor, require_finite
from .errors import InputError
from .head import Head
from .statistics import Needs, Statistics

Batch: TypeAlias = tuple[Tensor, Tensor | None, Tensor | None]
Batches: TypeAlias = Iterable[
    ArrayLike
    | tuple[ArrayLike, ArrayLike]
    | tuple[ArrayLike, ArrayLike | None, ArrayLike | None]
    | list[ArrayLike]
]

# Entries of a batch cut from an array: small enough that its float64 copy stays below 40 MiB.
_BATCH_ENTRIES = 2**22
_NO_LIMIT = 2**62


class Reference:
    """Statistics of ID features seen through a head; ``a + b`` merges two halves of the data."""

    def __init__(self, head: Head | None, statistics: Statistics) -> None:
        self.head = head
        self.statistics = statistics

    @classmethod
    def collect(
        cls,
        features: ArrayLike | Batches,
        labels: ArrayLike | None = None,
        *,
        head: Head | None = None,
        needs: Needs,
        ids: ArrayLike | None = None,
        seed: int = 0,
    ) -> Reference:
        """One pass over arrays, or over an iterable of batches: features, (features, labels) or
        (features, labels, ids)."""
        statistics: Statistics | None = None
        for batch, batch_labels, batch_ids in batches(features, labels, ids, head):
            if statistics is None:
                classes = head.classes if head is not None else None
                statistics = Statistics(needs, batch.shape[1], classes=classes, seed=seed)
            prepared = batch if head is None else head.prepare(batch)
            statistics.update(prepared, batch_labels, batch_ids)
        if statistics is None:
            raise InputError("features are empty: the iterable gave no batch")
        if needs.class_means and int((statistics.moments.counts > 0).sum()) < 2:
            raise InputError("labels hold one class only: class means need samples of at least two classes")
        return cls(head, statistics)

    @classmethod
    def empty(cls, head: Head) -> Reference:
        """A reference that saw no data, for scores that read the logits alone."""
        return cls(head, Statistics(Needs(), head.width, classes=head.classes))

    @property
    def count(self) -> int:
        """Rows seen."""
        return self.statistics.count

    def __add__(self, other: Reference) -> Reference:
        if (self.head is None) != (other.head is None) or (
            self.head is not None and other.head is not None and not _same_head(self.head, other.head)
        ):
            raise InputError("the two references were collected with different heads")
        return Reference(self.head, self.statistics + other.statistics)


def batches(
    features: ArrayLike | Batches, labels: ArrayLike | None, ids: ArrayLike | None, head: Head | None
) -> Iterator[Batch]:
    """Validated float batches with optional labels and ids, from arrays or from an iterable of batches."""
    width = head.width if head is not None else None
    classes = head.classes if head is not None else _NO_LIMIT
    first_row = 0
    for raw, raw_labels, raw_ids in _raw_batches(features, labels, ids):
        expected = f"the head expects {width}: pass the input of the last linear layer"
        batch = as_float(as_matrix(raw, "features", width, expected))
        if width is None:
            width = batch.shape[1]
        require_finite(batch, "features", first_row)
        batch_labels = None if raw_labels is None else as_labels(raw_labels, len(batch), classes)
        batch_ids = None if raw_ids is None else as_tensor(raw_ids, "ids").to(torch.int64)
        if batch_ids is not None and batch_ids.shape != (len(batch),):
            raise InputError(f"ids must have shape ({len(batch)},), got {tuple(batch_ids.shape)}")
        first_row += len(batch)
        yield batch, batch_labels, batch_ids


def _raw_batches(
    features: ArrayLike | Batches, labels: ArrayLike | None, ids: ArrayLike | None
) -> Iterator[tuple[ArrayLike, ArrayLike | None, ArrayLike | None]]:
    if isinstance(features, Tensor | np.ndarray):
        rows = as_matrix(features, "features", None, "")
        targets, numbers = _column(labels, "labels", len(rows)), _column(ids, "ids", len(rows))
        step = max(1, _BATCH_ENTRIES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield (
                rows[part],
                None if targets is None else targets[part],
                None if numbers is None else numbers[part],
            )
        return
    if not isinstance(features, Iterable):
        raise InputError(
            f"features must be an array, a tensor or an iterable of batches, got {type(features).__name__}"
        )
    if labels is not None or ids is not None:
        raise InputError("labels and ids belong in the batches when features is an iterable of batches")
    for item in features:
        if isinstance(item, tuple | list):
            if not 1 <= len(item) <= 3:
                raise InputError(
                    f"a batch must be features, (features, labels) or (features, labels, ids), "
                    f"got {len(item)} parts"
                )
            parts = [*item, None, None]
            yield parts[0], parts[1], parts[2]
        else:
            yield item, None, None


def _column(values: ArrayLike | None, name: str, rows: int) -> Tensor | None:
    if values is None:
        return None
    column = as_tensor(values, name)
    if column.shape != (rows,):
        raise InputError(f"{name} must have shape ({rows},) like the features, got {tuple(column.shape)}")
    return column


def _same_head(one: Head, other: Head) -> bool:
    return torch.equal(one.weight, other.weight) and torch.equal(one.bias, other.bias)
