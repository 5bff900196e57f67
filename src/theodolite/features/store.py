"""The feature store, read: a folder of safetensors shards, mapped from disk and checked as they are used.

    for features, labels, ids in store:        # what Detector.fit and fit_many take
        ...

A store is written by `StoreWriter`. Logits are not stored: the head is, once, and gives them back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.addresses import require_named
from ..core.errors import FormatError, InputError
from ..core.files import read_tensors, sha256
from ..core.plain import from_plain
from ..reference.head import Head
from .file_identity import Identity, identity_of
from .manifest import FILE, Manifest, Recipe, require_recipe, shard_name

HEAD_FILE = "head.safetensors"
HEAD_FORMAT = "theodolite-head/1"
CONTENTS_FILE = "contents.safetensors"
CONTENTS_FORMAT = "theodolite-contents/1"
SHARD_FORMAT = "theodolite-shard/1"
UNLABELLED = -1
REPAIR = (
    "Remedy: run the `extract`, `fit` or `bench` that made it again with --repair, which extracts only what "
    "is damaged"
)


class Shard(NamedTuple):
    """Consecutive rows of a store; labels are −1 where unknown, names are the samples' own ids."""

    features: Tensor
    labels: Tensor
    ids: Tensor
    names: Sequence[str]


def is_store(path: str | Path) -> bool:
    """Whether a path is the folder of a feature store."""
    try:
        return bool(str(path).strip()) and (Path(path) / FILE).is_file()
    except (OSError, ValueError):  # no path at all: too long, or with a zero byte
        return False


def number_of(name: str) -> int:
    """63 bits for a sample's id, the same on every machine."""
    return (
        int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()) >> 1
    )


class FeatureStore:
    """Features on disk, and everything known about them.

    ``recipe`` is what the caller expects to find: a store made from anything else is refused. A shard's
    checksum is compared when it is first read, and again when its file is not the one that was compared;
    `damaged` looks at all of them.

    >>> rows = np.random.default_rng(0).normal(size=(6, 2))
    >>> np.savez("train.npz", features=rows, labels=np.arange(6) % 2)
    >>> th.extract("train.npz", head=th.Head(np.eye(2)), output="features/train").path.name
    'train'
    >>> store = th.FeatureStore("features/train")
    >>> len(store), store.width, store.damaged()
    (6, 2, [])
    """

    def __init__(
        self, path: str | Path, *, recipe: Recipe | None = None, incomplete_ok: bool = False
    ) -> None:
        require_named(path)
        self.path = Path(path)
        self.manifest = Manifest.read(self.path)
        require_recipe(self.path, self.manifest, recipe)
        if not (self.manifest.complete or incomplete_ok):
            done, total = self.manifest.samples_done, self.manifest.recipe.samples
            raise InputError(
                f"{self.path} is incomplete: {done:,} of {total:,} samples are extracted. "
                f"Remedy: run the same extraction again, it goes on where it stopped"
            )
        absent = [] if incomplete_ok else absent_shards(self.path, self.manifest)
        if absent:
            raise damaged_error(self.path, absent)
        self.head = self._read_head()
        self._checked: dict[int, Identity] = {}
        self._ids: dict[int, Tensor] = {}
        self._mapped: dict[int, tuple[Identity, Tensor]] = {}

    @property
    def key(self) -> str:
        return self.manifest.recipe.key

    @property
    def width(self) -> int:
        return self.manifest.width

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return self.manifest.class_names

    @property
    def dtype(self) -> torch.dtype:
        return torch.float16 if self.manifest.recipe.dtype == "float16" else torch.float32

    @property
    def labelled(self) -> bool:
        """Whether every sample has a label."""
        return all(record.unlabelled == 0 for record in self.manifest.shards)

    @property
    def skipped(self) -> list[str]:
        """Samples that could not be read and were left out."""
        return [name for record in self.manifest.shards for name in record.skipped]

    @property
    def turned(self) -> int:
        """Pictures that were turned as their EXIF orientation says."""
        return sum(record.turned for record in self.manifest.shards)

    @property
    def cut(self) -> int:
        """Samples that are longer than what the model takes, and were cut off there."""
        return sum(record.cut for record in self.manifest.shards)

    @property
    def shards(self) -> int:
        """Shards on disk."""
        return len(self.manifest.shards)

    def __len__(self) -> int:
        return sum(record.rows for record in self.manifest.shards)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
        return self.batches()

    def batches(self, rows: int | None = None) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
        """(features, labels, ids) of at most ``rows`` rows, by default a shard at a time.

        Labels are None unless every sample of the store has one. Memory holds one shard, whatever the size
        of the store.
        """
        if rows is not None and rows < 1:
            raise InputError(f"rows must be at least 1, got {rows}")
        labelled = self.labelled
        for index in range(self.shards):
            shard = self.shard(index)
            step = rows or max(1, len(shard.features))
            for start in range(0, len(shard.features), step):
                part = slice(start, start + step)
                yield shard.features[part], shard.labels[part] if labelled else None, shard.ids[part]

    def shard(self, index: int) -> Shard:
        """One shard, mapped from disk; refused if its checksum is wrong."""
        features, labels, names = self._read(index)
        # To number the names takes longer than to read the rows: once for all passes.
        if index not in self._ids:
            self._ids[index] = torch.tensor([number_of(name) for name in names], dtype=torch.int64)
        return Shard(features, labels, self._ids[index].clone(), names)

    def labels(self) -> Iterator[Tensor]:
        """The labels of shard after shard, of which nothing is kept."""
        for index in range(self.shards):
            yield self._read(index)[1]

    def _read(self, index: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
        """Features, labels and names of a shard."""
        self._compared(index)
        path = self.path / shard_name(index)
        tensors, description = read_tensors(path, SHARD_FORMAT, sealed=False)
        names = from_plain(tuple[str, ...], description.get("names"), f"{path}: names")
        labels, rows = tensors.get("labels"), self.manifest.shards[index].rows
        features = self._features_of(index, tensors)
        if labels is None or labels.shape != (rows,) or labels.is_floating_point() or len(names) != rows:
            raise FormatError(f"{path} is damaged: it holds no label and name for each row. {REPAIR}")
        return features, labels, names

    def features(self, index: int) -> Tensor:
        """The features of a shard alone, for whoever reads them again and again: they stay mapped."""
        identity = self._compared(index)
        mapped = self._mapped.get(index)
        if mapped is None or mapped[0] != identity:
            tensors, _ = read_tensors(self.path / shard_name(index), SHARD_FORMAT, sealed=False)
            mapped = self._mapped[index] = identity, self._features_of(index, tensors)
        return mapped[1]

    def _compared(self, index: int) -> Identity:
        """The file of a shard, whose checksum was compared with the manifest's."""
        if not 0 <= index < self.shards:
            raise InputError(f"shard {index} does not exist: the store has {self.shards}")
        identity = identity_of(self.path / shard_name(index))
        if identity is None or self._checked.get(index) != identity:
            if identity is None or not self._sound(index):
                raise damaged_error(self.path, [index])
            self._checked[index] = identity
            self._ids.pop(index, None)
        return identity

    def _features_of(self, index: int, tensors: Mapping[str, Tensor]) -> Tensor:
        features, shape = tensors.get("features"), (self.manifest.shards[index].rows, self.width)
        if features is None or features.shape != shape or features.dtype != self.dtype:
            path = self.path / shard_name(index)
            raise FormatError(f"{path} is damaged: no features {shape} of {self.dtype} are in it. {REPAIR}")
        return features

    def names(self) -> Iterator[str]:
        """The samples' own ids, in the order of the rows."""
        for index in range(self.shards):
            yield from self.shard(index).names

    def contents(self) -> Tensor | None:
        """63 bits for the content of each sample listed, in order; None in a store of 0.1.0."""
        if self.manifest.contents is None:
            return None
        path = self.path / CONTENTS_FILE
        if not path.is_file() or sha256(path) != self.manifest.contents:
            raise FormatError(f"{path} is missing or damaged. {REPAIR}")
        return read_tensors(path, CONTENTS_FORMAT, sealed=False)[0]["contents"].clone()

    def changed(self) -> list[int]:
        """Shards whose files are not those that were read: written over, replaced, or gone. Reads nothing."""
        known = sorted(self._checked.items())
        return [index for index, seen in known if identity_of(self.path / shard_name(index)) != seen]

    def damaged(self) -> list[int]:
        """Shards that are missing or whose checksum is wrong. Reads the whole store."""
        return [index for index in range(self.shards) if not self._sound(index)]

    def _sound(self, index: int) -> bool:
        path = self.path / shard_name(index)
        return path.is_file() and sha256(path) == self.manifest.shards[index].sha256

    def _read_head(self) -> Head | None:
        if self.manifest.head is None:
            return None
        path = self.path / HEAD_FILE
        if not path.is_file() or sha256(path) != self.manifest.head:
            raise FormatError(f"{path} is missing or damaged. {REPAIR}")
        tensors, description = read_tensors(path, HEAD_FORMAT, sealed=False)
        unit = description.get("unit_features")
        if "weight" not in tensors or "bias" not in tensors or not isinstance(unit, bool):
            raise FormatError(f"{path} is damaged: it lacks weight, bias or unit_features. {REPAIR}")
        return Head(tensors["weight"], tensors["bias"], unit_features=unit)


class StoreParts:
    """Several stores of one model as one: the parts that machines extracted each by itself.

    Those of an encoder have no head; they may be given one.
    """

    def __init__(self, parts: Sequence[FeatureStore], head: Head | None = None) -> None:
        for part in parts:
            if not _same_head(part.head, parts[0].head):
                raise InputError(
                    f"{part.path} and {parts[0].path} are features of models with different heads"
                )
        if len({part.key for part in parts}) < len(parts):
            raise InputError("two parts hold the same features: name every part once")
        self.parts = tuple(parts)
        self.head = parts[0].head if head is None else head
        self.labelled = all(part.labelled for part in parts)
        named = {part.class_names for part in parts}
        self.class_names = named.pop() if len(named) == 1 else None

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
        """Labels are None unless every sample of every part has one."""
        for part in self.parts:
            for features, labels, ids in part:
                yield features, labels if self.labelled else None, ids


def _same_head(one: Head | None, other: Head | None) -> bool:
    return one is other if one is None or other is None else one.equals(other)


def absent_shards(folder: Path, manifest: Manifest) -> list[int]:
    """Shards that were written and whose files are gone."""
    return [index for index in range(len(manifest.shards)) if not (folder / shard_name(index)).is_file()]


def damaged_error(path: Path, indices: Sequence[int]) -> FormatError:
    named = ", ".join(shard_name(index) for index in indices)
    return FormatError(
        f"{path}: {named} {'is' if len(indices) == 1 else 'are'} missing or damaged (wrong checksum). "
        f"{REPAIR}"
    )
