"""Features to judge scores on: a file of a feature folder, or a feature store. Read in batches, many times.

A feature folder holds ``head.safetensors`` (weight, bias) and, each a safetensors file (features, labels) or
a feature store: ``id_fit``, ``id_test``, and one for every OOD set. ``about.json`` may say which protocol and
backbone it belongs to, so that published numbers are found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from ..core.errors import FormatError, InputError
from ..core.files import sha256
from ..features.store import FeatureStore, is_store
from ..reference.head import Head
from .protocols import FIT, TEST

Batch: TypeAlias = tuple[Tensor, Tensor | None, Tensor | None]
HEAD, ABOUT = "head.safetensors", "about.json"
_BATCH_ROWS = 1024


class FeatureSet(Protocol):
    """Rows of features that can be read again and again; ``digest`` changes when any of them does."""

    @property
    def digest(self) -> str: ...

    @property
    def samples(self) -> str: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...


class FileSet:
    """A safetensors file with ``features`` (N, D) and perhaps ``labels`` (N,); slices are read as needed."""

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
        self.rows, self.width = shape

    def __len__(self) -> int:
        return int(self.rows)

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

    @property
    def samples(self) -> str:
        """A file knows its samples by their row, and by their labels where it has them."""
        digest = hashlib.sha256()
        for _, labels, _ in self if self.labelled else ():
            assert labels is not None
            digest.update(labels.numpy().tobytes())
        return f"{self.path.stem}: {len(self)} rows, labels {digest.hexdigest()}"


class StoreSet:
    """A complete feature store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = FeatureStore(path)
        self.width = self.store.width
        self.labelled = self.store.labelled

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[Batch]:
        return self.store.batches()

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


def open_set(folder: Path, name: str) -> FileSet | StoreSet | None:
    """The set called ``name`` of a feature folder, or None."""
    if is_store(folder / name):
        return StoreSet(folder / name)
    path = folder / f"{name}.safetensors"
    return FileSet(path) if path.is_file() else None


def outlier_names(folder: Path) -> list[str]:
    """Every set of a feature folder that is neither ID data nor the head."""
    known = {FIT, TEST, Path(HEAD).stem}
    names = {path.stem for path in folder.glob("*.safetensors")}
    names |= {path.name for path in folder.iterdir() if is_store(path)}
    return sorted(names - known)


def read_head(folder: Path) -> Head:
    """The head of a feature folder: its own file, or that of the store of ID data."""
    path = folder / HEAD
    if not path.is_file():
        if is_store(folder / TEST):
            return FeatureStore(folder / TEST).head
        raise InputError(
            f"{folder} has no {HEAD}: a feature folder holds the weight and bias of the last layer"
        )
    tensors = load_file(path)
    if "weight" not in tensors:
        raise FormatError(f"{path} holds {sorted(tensors)}, expected weight (C, D) and bias (C,)")
    return Head(tensors["weight"], tensors.get("bias"))


def read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    if not path.is_file():
        return {}
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path} is not JSON: {error}") from error
    if not isinstance(about, dict) or not all(
        about.get(key) is None or isinstance(about[key], str) for key in ("name", "protocol", "backbone")
    ):
        raise FormatError(f"{path} must hold a JSON object with name, protocol and backbone, each a text")
    return about


def head_digest(head: Head) -> str:
    digest = hashlib.sha256(f"{tuple(head.weight.shape)} {head.unit_features}".encode())
    for tensor in (head.weight, head.bias):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
