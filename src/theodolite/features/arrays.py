"""Features in files: rows (N, D) of floating-point numbers, perhaps with labels and ids; read in batches.

    for features, labels, ids in open_array("train.npy"):       # what every fit takes
        ...

Whose features they are, such a file does not say: only their width can be compared with others'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..core.arrays import as_tensor
from ..core.errors import FormatError, InputError
from ..data.bounds import LARGEST_LABEL
from ..data.npy import ArrayArchive, mapped_array
from ..reference.head import Head
from ..reference.reference import Batch
from .parquet import ParquetColumns
from .store import number_of

FEATURES, LABELS, IDS = ("features", "embeddings"), ("labels", "label"), ("ids", "id", "names", "name")
LOGITS = ("logits",)
SUFFIXES = (".npy", ".npz", ".parquet", ".safetensors")
# Names that the only array of an archive may have when it is said to be one of features.
_UNNAMED = ("arr_0", "x", "data")
_ROWS = 1024
_FLOATS = ("F16", "BF16", "F32", "F64")
Array: TypeAlias = npt.NDArray[np.generic]
Read: TypeAlias = Callable[[int, int], Tensor]


class Block(NamedTuple):
    """Neighbouring rows; labels are None unless every row of the file has one."""

    features: Tensor
    labels: Tensor | None
    names: Sequence[str]


@dataclass(frozen=True)
class FeatureArray:
    """The features of one file. ``name`` begins the names of rows that have no id: ``new.npy#17``.

    ``logits`` reads those that the file holds beside the features, in the same steps.
    """

    path: Path
    name: str
    rows: int
    width: int
    dtype: str
    labels: Tensor | None
    ids: Sequence[str] | None
    read: Callable[[int], Iterator[Tensor]]
    logits: Callable[[int], Iterator[Tensor]] | None = None

    def __len__(self) -> int:
        return self.rows

    @property
    def labelled(self) -> bool:
        """Whether every row has a label."""
        return self.labels is not None

    def blocks(self, rows: int = _ROWS) -> Iterator[Block]:
        """All rows, at most ``rows`` at a time."""
        start = 0
        for features in self.read(rows):
            part = range(start, start + len(features))
            names = (
                [f"{self.name}#{row}" for row in part]
                if self.ids is None
                else self.ids[part.start : part.stop]
            )
            labels = None if self.labels is None else self.labels[part.start : part.stop]
            yield Block(features, labels, names)
            start = part.stop

    def __iter__(self) -> Iterator[Batch]:
        for features, labels, names in self.blocks():
            yield features, labels, torch.tensor([number_of(name) for name in names], dtype=torch.int64)


class ArrayParts:
    """Several files of features as one, seen through one ``head`` where there is one."""

    def __init__(self, parts: Sequence[FeatureArray], head: Head | None) -> None:
        expected, by = (parts[0].width, parts[0].path) if head is None else (head.width, "the head")
        for part in parts:
            if part.width != expected:
                raise InputError(
                    f"{part.path} holds features of width {part.width}, but {by} has width {expected}: they "
                    f"are of different models or layers"
                )
        names = [part.name for part in parts]
        self.parts = tuple(
            replace(part, name=str(part.path)) if names.count(part.name) > 1 else part for part in parts
        )
        self.head = head
        self.labelled = all(part.labelled for part in parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[Batch]:
        """Labels are None unless every row of every part has one."""
        for part in self.parts:
            for features, labels, ids in part:
                yield features, labels if self.labelled else None, ids


def open_array(path: str | Path, *, name: str | None = None) -> FeatureArray:
    """The features in a ``.npy``, ``.npz``, ``.parquet`` or ``.safetensors`` file; labels where it has them.

    An archive holds them as ``features``, ``labels`` and ``ids``, and perhaps ``logits``; labels of
    ``NAME.npy`` may lie beside it in ``NAME_labels.npy``, logits in ``NAME_logits.npy``.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise InputError(f"the feature file {place} does not exist (looked from {Path.cwd()})")
    opener = _OPENERS.get(place.suffix.lower())
    if opener is None:
        raise InputError(f"{place}: features are read from {', '.join(SUFFIXES)}, not {place.suffix!r}")
    return opener(place, name or place.name)


def _of_npy(path: Path, name: str) -> FeatureArray:
    beside = path.with_name(f"{path.stem}_labels.npy")
    labels = mapped_array(beside) if beside.is_file() else None
    said = path.with_name(f"{path.stem}_logits.npy")
    logits = mapped_array(said) if said.is_file() else None
    return _of_matrix(path, name, mapped_array(path), labels, None, logits)


def _of_npz(path: Path, name: str) -> FeatureArray:
    archive = ArrayArchive(path)
    found = archive.one_of(FEATURES, "features") or archive.one_of(_UNNAMED, "features")
    if found is None:
        raise InputError(
            f"{path} holds {', '.join(archive.names[:20]) or 'nothing'}: name its arrays features (N, D), "
            f"and where there are any labels (N,) and ids (N,)"
        )
    labels, ids = archive.one_of(LABELS, "labels"), archive.one_of(IDS, "ids")
    logits = archive.one_of(LOGITS, "logits")
    return _of_matrix(
        path,
        name,
        archive.read(found),
        None if labels is None else archive.read(labels),
        None if ids is None else archive.read(ids),
        None if logits is None else archive.read(logits),
    )


def _of_matrix(
    path: Path,
    name: str,
    matrix: Array,
    labels: Array | None,
    ids: Array | None,
    logits: Array | None,
) -> FeatureArray:
    _require_floats(path, matrix.shape, str(matrix.dtype), np.issubdtype(matrix.dtype, np.floating))
    rows = matrix.shape[0]
    if logits is not None:
        _require_logits(path, logits.shape, rows, np.issubdtype(logits.dtype, np.floating))

    def reader(values: Array) -> Callable[[int], Iterator[Tensor]]:
        def read(step: int) -> Iterator[Tensor]:
            for start in range(0, rows, step):
                yield as_tensor(np.array(values[start : start + step]), "features")

        return read

    return FeatureArray(
        path,
        name,
        rows,
        matrix.shape[1],
        str(matrix.dtype),
        None if labels is None else checked_labels(path, np.asarray(labels), rows),
        None if ids is None else _texts(path, np.asarray(ids), rows),
        reader(matrix),
        None if logits is None else reader(logits),
    )


def _of_safetensors(path: Path, name: str) -> FeatureArray:
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            if "features" not in names:
                raise FormatError(f"{path} holds {sorted(names)[:20]}, expected features of shape (N, D)")
            sliced = file.get_slice("features")
            shape, dtype = tuple(sliced.get_shape()), sliced.get_dtype()
            _require_floats(path, shape, dtype, dtype in _FLOATS)
            if "logits" in names:
                said = file.get_slice("logits")
                _require_logits(path, tuple(said.get_shape()), shape[0], said.get_dtype() in _FLOATS)
            labels = file.get_tensor("labels").numpy() if "labels" in names else None
    except (SafetensorError, OSError) as error:
        raise FormatError(f"{path} is not a readable safetensors file: {error}") from error

    def read(step: int, entry: str = "features") -> Iterator[Tensor]:
        with safe_open(path, framework="pt") as file:
            values = file.get_slice(entry)
            for start in range(0, shape[0], step):
                yield values[start : start + step]

    known = None if labels is None else checked_labels(path, labels, shape[0])
    logits = partial(read, entry="logits") if "logits" in names else None
    return FeatureArray(path, name, shape[0], shape[1], dtype, known, None, read, logits)


def _of_parquet(path: Path, name: str) -> FeatureArray:
    table = ParquetColumns.open(path, FEATURES, LABELS, IDS)
    labels, ids = table.column(table.labels), table.column(table.ids)
    return FeatureArray(
        path,
        name,
        table.rows,
        table.width,
        table.dtype,
        None if labels is None else checked_labels(path, labels, table.rows),
        None if ids is None else _texts(path, ids, table.rows),
        lambda step: (as_tensor(rows, "features") for rows in table.batches(step)),
    )


_OPENERS: dict[str, Callable[[Path, str], FeatureArray]] = {
    ".npy": _of_npy,
    ".npz": _of_npz,
    ".parquet": _of_parquet,
    ".safetensors": _of_safetensors,
}


def checked_labels(path: Path, labels: Array, rows: int) -> Tensor | None:
    """Whole numbers, one a row; −1 is no label, and with one such row there are none."""
    if labels.shape != (rows,):
        raise InputError(f"{path}: labels have shape {labels.shape}, expected ({rows},), one a row")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{path}: labels have dtype {labels.dtype}, expected whole numbers")
    low, high = int(labels.min()), int(labels.max())
    if low < -1 or high > LARGEST_LABEL:
        raise InputError(f"{path}: labels run from {low} to {high}, expected 0 or more, or -1 for none")
    return None if low < 0 else torch.from_numpy(labels.astype(np.int64))


def _texts(path: Path, ids: Array, rows: int) -> Sequence[str]:
    if ids.shape != (rows,):
        raise InputError(f"{path}: ids have shape {ids.shape}, expected ({rows},), one a row")
    texts = [str(value) for value in ids.tolist()]
    if len(set(texts)) < rows:
        raise InputError(f"{path}: ids name a row twice: every row needs an id of its own")
    return texts


def _require_logits(path: Path, shape: tuple[int, ...], rows: int, floats: bool) -> None:
    if len(shape) != 2 or shape[0] != rows or shape[1] < 2 or not floats:
        raise InputError(f"{path}: logits have shape {shape}, expected floating-point numbers ({rows}, C)")


def _require_floats(path: Path, shape: tuple[int, ...], dtype: str, floats: bool) -> None:
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"{path} holds an array of shape {shape}, expected features of shape (N, D)")
    if not floats:
        raise InputError(
            f"{path} holds numbers of dtype {dtype}, but features are floating-point ones: if these integers "
            f"are features, save them with .astype('float32')"
        )
