"""The reference: what in-distribution data taught us. A head, statistics of the features, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._version import __version__
from ..core.arrays import (
    ArrayLike,
    as_float,
    as_labels,
    as_matrix,
    as_tensor,
    require_finite,
    require_no_table,
)
from ..core.errors import InputError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, from_plain, to_plain
from .head import Head
from .pairs import merged_in_pairs
from .seen import Seen, require_apart, require_each_once
from .statistics import Needs, Statistics
from .storage import ReferenceRecord, pack_reference, unpack_reference
from .view import BATCH_ENTRIES, PLAIN, View

Batch: TypeAlias = tuple[Tensor, Tensor | None, Tensor | None]
Batches: TypeAlias = Iterable[ArrayLike | tuple[ArrayLike | None, ...] | list[ArrayLike]]

Derived = TypeVar("Derived")

# Classes that labels may number where no head says how many there are.
_MOST_CLASSES = 1_000_000


FORMAT = "theodolite-reference/1"


class Reference:
    """Statistics of ID features seen through a head; ``a + b`` merges two halves of the data.

    ``view`` names what was done to the features before they were counted (``"plain"``: nothing); ``width`` is
    that of the features, also where what was counted has another. ``samples`` is an account of the ids that
    were given with the rows, None if none were: halves that share samples are refused where both have one.

    >>> rows, head, detector = np.arange(12.0).reshape(6, 2), th.Head(np.eye(2)), th.ORA()
    >>> reference = detector.collect(rows[:2], head=head) + detector.collect(rows[2:], head=head)
    >>> reference.statistics.moments.mean
    tensor([5., 6.], dtype=torch.float64)
    """

    def __init__(
        self,
        head: Head | None,
        statistics: Statistics,
        view: str = PLAIN,
        samples: Seen | None = None,
        width: int | None = None,
    ) -> None:
        self.head = head
        self.statistics = statistics
        self.view = view
        self.samples = samples
        self.width = statistics.width if width is None else width
        self._derived: dict[str, Any] = {}

    def derived(self, name: str, compute: Callable[[], Derived]) -> Derived:
        """What several detectors derive from the same statistics (an eigendecomposition), computed once."""
        if name not in self._derived:
            self._derived[name] = compute()
        found: Derived = self._derived[name]
        return found

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
        plain = View(PLAIN, lambda rows: rows, needs, seed)
        return collect_views(features, labels, head=head, views=[plain], ids=ids, account=True)[0]

    @classmethod
    def empty(cls, head: Head, view: str = PLAIN) -> Reference:
        """A reference that saw no data, for scores that read the logits alone."""
        return cls(head, Statistics(Needs(), head.width, classes=head.classes), view)

    def seen_through(self, head: Head | None) -> Reference:
        """The reference with ``head``, where it was collected without one; another head is refused."""
        if head is None or (self.head is not None and self.head.equals(head)):
            return self
        if self.head is not None:
            raise InputError("the reference was collected with another head: leave head= out")
        if head.unit_features:
            raise InputError("the reference saw features of any length: collect it with the cosine head")
        return Reference(head, self.statistics, self.view, self.samples, self.width)

    def save(self, path: str | Path) -> None:
        """Write the reference as one safetensors file, which `load` reads back bit by bit."""
        record = ReferenceRecord.of(self.head, self.statistics, self.samples, self.view, self.width)
        description: JsonObject = {
            "format": FORMAT,
            "theodolite": __version__,
            "reference": to_plain(record),
        }
        write_tensors(Path(path), pack_reference(self.head, self.statistics, self.samples), description)

    @classmethod
    def load(cls, path: str | Path) -> Reference:
        """A reference from a file that `save` wrote; one that is damaged is refused."""
        tensors, description = read_tensors(Path(path), FORMAT)
        with undamaged(path, "collect it again"):
            said = from_plain(ReferenceRecord, description.get("reference"), "the reference")
            head, statistics, samples = unpack_reference(said, tensors)
            return cls(head, statistics, said.view, samples, said.width)

    @classmethod
    def merged(cls, references: Iterable[Reference]) -> Reference:
        """All of them as one, merged in pairs: exact to float64 rounding for thousands of parts."""
        return merged_in_pairs(references, "references")

    @property
    def count(self) -> int:
        """Rows seen."""
        return self.statistics.count

    def __add__(self, other: Reference) -> Reference:
        if (self.head is None) != (other.head is None) or (
            self.head is not None and other.head is not None and not self.head.equals(other.head)
        ):
            raise InputError("the two references were collected with different heads")
        if self.view != other.view:
            raise InputError(f"the two references saw different features: {self.view!r} and {other.view!r}")
        if self.width != other.width:
            raise InputError(f"the two references saw features of width {self.width} and {other.width}")
        samples = None
        if self.samples is not None and other.samples is not None:
            require_apart(self.samples, other.samples)
            samples = self.samples + other.samples
        return Reference(self.head, self.statistics + other.statistics, self.view, samples, self.width)


def collect_views(
    features: ArrayLike | Batches,
    labels: ArrayLike | None = None,
    *,
    head: Head | None,
    views: Sequence[View],
    ids: ArrayLike | None = None,
    account: bool = False,
) -> list[Reference]:
    """One pass over the data for several views of it: a reference each, with an ``account`` of the samples
    where that is asked for and all have ids."""
    gathered: list[Statistics] = []
    samples = Seen() if account else None
    first_row = width = 0
    for batch, batch_labels, batch_ids in batches(features, labels, ids, head, finite=False):
        width = batch.shape[1]
        if batch_ids is None:
            samples = None
        elif samples is not None:
            samples.add(batch_ids)
        prepared = batch if head is None else head.prepare(batch)
        if not gathered:
            classes = None if head is None else head.classes
            gathered = [
                Statistics(view.needs, view.width or batch.shape[1], classes=classes, seed=view.seed)
                for view in views
            ]
        finite = False
        for view, statistics in zip(views, gathered, strict=True):
            if view.key != PLAIN and not finite:
                require_finite(batch, "features", first_row)  # a view may hide what is not a number
                finite = True
            if view.needs.anything:
                for rows, row_labels, row_ids in view.pieces(prepared, batch_labels, batch_ids):
                    finite = statistics.update(rows, row_labels, row_ids, head) or finite
        if not finite:
            require_finite(batch, "features", first_row)
        first_row += len(batch)
    if not gathered:
        raise InputError("features are empty: the iterable gave no batch")
    if samples is not None:
        require_each_once(samples)
    return [
        Reference(head, part, view.key, samples, width) for view, part in zip(views, gathered, strict=True)
    ]


def batches(
    features: ArrayLike | Batches,
    labels: ArrayLike | None,
    ids: ArrayLike | None,
    head: Head | None,
    *,
    finite: bool = True,
) -> Iterator[Batch]:
    """Validated float batches with optional labels and ids, from arrays or from an iterable of batches.

    With ``finite=False`` the caller sees to it that rows with NaN or infinity are refused.
    """
    width = head.width if head is not None else None
    classes = head.classes if head is not None else _MOST_CLASSES
    first_row = 0
    for raw, raw_labels, raw_ids in _raw_batches(features, labels, ids):
        expected = f"the head expects {width}: pass the input of the last linear layer"
        batch = as_float(as_matrix(raw, "features", width, expected))
        if width is None:
            width = batch.shape[1]
        if finite:
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
        step = max(1, BATCH_ENTRIES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield (
                rows[part],
                None if targets is None else targets[part],
                None if numbers is None else numbers[part],
            )
        return
    require_no_table(features, "features")
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
