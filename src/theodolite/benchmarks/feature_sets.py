"""Features to judge scores on: rows in memory, in a safetensors file or in a feature store, read in batches.

Every set can be read again and again, and knows two digests: one that changes with any of its features, and
one of its samples, by which the scores of several models on the same samples are told apart from others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..core.arrays import ArrayLike, as_labels, as_matrix, as_tensor
from ..core.errors import FormatError
from ..core.files import sha256
from ..features.store import FeatureStore
from .shown import ShownRows

Batch: TypeAlias = tuple[Tensor, Tensor | None, Tensor | None]
# The sets of every subject: ID rows to fit on, held-out ID rows. An OOD set may have any name but these.
FIT, TEST, AVERAGE = "id_fit", "id_test", "average"
# Sets that a protocol may have for choosing settings: they are never judged.
ID_VAL, OOD_VAL = "id_val", "ood_val"
_BATCH_ROWS = 1024


class FeatureSet(Protocol):
    """Rows of features of one width; ``labelled`` says whether every row has a label."""

    @property
    def width(self) -> int: ...

    @property
    def labelled(self) -> bool: ...

    @property
    def digest(self) -> str: ...

    @property
    def samples(self) -> str: ...

    @property
    def class_names(self) -> tuple[str, ...] | None: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...


class ArraySet:
    """Rows in memory, (N, D) and perhaps labels (N,).

    >>> rows = th.ArraySet(np.ones((4, 2)), np.array([0, 1, 0, 1]))
    >>> len(rows), rows.width
    (4, 2)
    """

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        self.features = as_matrix(features, "features", None, "")
        self.labels = None if labels is None else _labels(labels, len(self.features))
        self.class_names = class_names
        self.width = int(self.features.shape[1])
        self.labelled = labels is not None

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self), _BATCH_ROWS):
            part = slice(start, start + _BATCH_ROWS)
            yield self.features[part], None if self.labels is None else self.labels[part], None

    @cached_property
    def digest(self) -> str:
        digest = hashlib.sha256(f"{tuple(self.features.shape)} {self.features.dtype}".encode())
        for tensor in (self.features, self.labels):
            if tensor is not None:
                digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @property
    def samples(self) -> str:
        return _samples_by_label("rows", self)


class FileSet:
    """A safetensors file with ``features`` (N, D) and perhaps ``labels`` (N,); slices are read as needed.

    ``ids`` (N,), whole numbers, name the samples where the file has them.
    """

    class_names = None

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with safe_open(path, framework="pt") as file:
                names = set(file.keys())
                shape = file.get_slice("features").get_shape() if "features" in names else []
        except (SafetensorError, OSError) as error:
            raise FormatError(f"{path} is not a readable safetensors file: {error}") from error
        if len(shape) != 2 or shape[0] == 0:
            raise FormatError(f"{path} holds {sorted(names)}, expected features of shape (N, D)")
        self.labelled = "labels" in names
        self.identified = "ids" in names
        self.rows, self.width = int(shape[0]), int(shape[1])

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[Batch]:
        with safe_open(self.path, framework="pt") as file:
            features = file.get_slice("features")
            labels = file.get_slice("labels") if self.labelled else None
            for start in range(0, len(self), _BATCH_ROWS):
                part = slice(start, start + _BATCH_ROWS)
                yield features[part], None if labels is None else labels[part].long(), None

    @cached_property
    def digest(self) -> str:
        return sha256(self.path)

    @cached_property
    def samples(self) -> str:
        if not self.identified:
            return _samples_by_label(self.path.stem, self)
        with safe_open(self.path, framework="pt") as file:
            ids = file.get_tensor("ids")
        if ids.shape != (self.rows,) or ids.is_floating_point():
            raise FormatError(f"{self.path}: ids must be {self.rows} whole numbers, got {tuple(ids.shape)}")
        return hashlib.sha256(ids.long().numpy().tobytes()).hexdigest()


class StoreSet:
    """A complete feature store."""

    identified = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = FeatureStore(path)
        self.width = self.store.width
        self.labelled = self.store.labelled
        self.class_names = self.store.class_names

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[Batch]:
        return self.store.batches()

    @property
    def shown(self) -> ShownRows:
        recipe = self.store.manifest.recipe
        return ShownRows(recipe.model_score, recipe.rows)

    @property
    def pictures(self) -> Tensor | None:
        """63 bits for the picture of each row; None where a store of an earlier version does not say."""
        found = self.store.contents()
        return None if found is None or len(found) != len(self) else found

    @cached_property
    def digest(self) -> str:
        parts = [self.store.key, *(record.sha256 for record in self.store.manifest.shards)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @cached_property
    def samples(self) -> str:
        """Digest of the samples' own ids, in order."""
        digest = hashlib.sha256()
        for name in self.store.names():
            digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
        return digest.hexdigest()


def identified(rows: FeatureSet) -> bool:
    """Whether a set knows its samples by name, so that the same ones are told from others for certain."""
    return bool(getattr(rows, "identified", False))


def pictures_of(rows: FeatureSet) -> Tensor | None:
    """63 bits for the picture of each row, the same for every model, where a set knows them."""
    found = getattr(rows, "pictures", None)
    return found if isinstance(found, Tensor) else None


def _samples_by_label(name: str, rows: ArraySet | FileSet) -> str:
    """Rows without ids know their samples by their place, and by their labels where they have them."""
    digest = hashlib.sha256()
    for _, labels, _ in rows if rows.labelled else ():
        assert labels is not None
        digest.update(labels.numpy().tobytes())
    return f"{name}: {len(rows)} rows, labels {digest.hexdigest()}"


def _labels(labels: ArrayLike, rows: int) -> Tensor:
    highest = int(as_tensor(labels, "labels").max()) if len(labels) else 0
    return as_labels(labels, rows, highest + 1)
