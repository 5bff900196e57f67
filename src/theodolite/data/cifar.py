"""CIFAR-10 and CIFAR-100 python batches: pickles, read without letting them run anything.

An array in a pickle is an empty one that is then filled from bytes of the file: that is the only way allowed
to make one, so that nothing becomes larger than the file is.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..core.errors import FormatError, InputError
from .bounds import LARGEST_LABEL
from .formats import data_format
from .stacks import ImageStack

_SHAPE = (-1, 3, 32, 32)
# Every batch of the originals is below 200 MB.
_LARGEST = 2**30
# The originals have a few. Hashing a deeply nested one ends the process: Python calls itself for each level.
_TUPLES = 1_000


def _no_call(*_: object) -> NoReturn:
    raise pickle.UnpicklingError("it makes an array of a size of its own")


def _empty_array(kind: object, shape: object, code: object) -> np.ndarray:
    """What `numpy` calls to begin an array: always an empty one, whose content follows."""
    if kind is not _no_call or shape != (0,) or code not in (b"b", "b"):
        _no_call()
    return np.empty(0, dtype=np.int8)


def _encoded(text: object, encoding: object) -> bytes:
    """Bytes as Python 3 writes them for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("it asks for bytes of an unusual kind")
    return text.encode("latin1")


# All that an array in a pickle is made of; every other name is refused before it is looked up.
_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _no_call,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("_codecs", "encode"): _encoded,
}


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays and builtin containers; a pickle that asks for anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")
        return _ALLOWED[module, name]


def is_cifar(path: Path) -> bool:
    """Whether a file or folder has the name of CIFAR python batches."""
    if path.is_dir():
        return (path / "batches.meta").is_file() or (path / "meta").is_file()
    named = path.name.startswith(("data_batch", "test_batch"))
    return named or (path.name in ("train", "test") and path.with_name("meta").is_file())


@data_format("cifar", title="a CIFAR batch", place="either", named=is_cifar, patterns=True)
def open_cifar(path: Path) -> ImageStack:
    """One batch file, or all training batches of CIFAR-10 by the pattern `data_batch_*`."""
    if path.is_dir():
        raise InputError(
            f"{path} holds training and test pictures: open {path / 'test_batch'} or {path / 'data_batch_*'} "
            f"(CIFAR-100: {path / 'test'} or {path / 'train'})"
        )
    files = sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
    if not files:
        raise InputError(f"no file matches {path}")
    parts = [_batch(file) for file in files]
    return ImageStack(
        path.name,
        np.concatenate([images for images, _ in parts]),
        np.concatenate([labels for _, labels in parts]),
        _class_names(path.parent),
    )


def _batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    content = _read(path)
    images, labels = content.get(b"data"), content.get(b"labels", content.get(b"fine_labels"))
    if not isinstance(images, np.ndarray) or images.shape[1:] != (3 * 32 * 32,) or not _are_bytes(images):
        raise FormatError(f"{path} is no CIFAR batch: expected `data` of shape (N, 3072), values 0 to 255")
    if not isinstance(labels, list | np.ndarray) or len(labels) != len(images):
        raise FormatError(f"{path} is no CIFAR batch: expected {len(images):,} `labels`, a list of numbers")
    for label in labels:
        if not isinstance(label, int | np.integer) or not 0 <= label <= LARGEST_LABEL:
            raise FormatError(f"{path} is no CIFAR batch: {label!s:.40} is no label")
    return images.astype(np.uint8).reshape(_SHAPE), np.asarray(labels, dtype=np.int64)


def _are_bytes(values: np.ndarray) -> bool:
    whole = np.issubdtype(values.dtype, np.integer)
    return whole and (values.size == 0 or 0 <= int(values.min()) <= int(values.max()) <= 255)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    for file, key in (("batches.meta", b"label_names"), ("meta", b"fine_label_names")):
        if (folder / file).is_file():
            names = _read(folder / file).get(key)
            return None if names is None else _names(names, folder / file)
    return None


def _names(names: object, path: Path) -> tuple[str, ...]:
    try:
        if isinstance(names, list):
            return tuple(name if isinstance(name, str) else bytes.decode(name) for name in names)
    except (TypeError, UnicodeDecodeError):
        pass
    raise FormatError(f"{path} has no names of classes: expected a list of texts")


def _read(path: Path) -> dict[bytes, Any]:
    if path.stat().st_size > _LARGEST:
        raise FormatError(f"{path} is no CIFAR batch: it has {path.stat().st_size:,} bytes")
    raw = path.read_bytes()
    try:
        if sum("TUPLE" in code.name for code, _, _ in pickletools.genops(raw)) > _TUPLES:
            raise pickle.UnpicklingError("it holds more tuples than a batch has")
        content = _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise FormatError(
            f"{path} cannot be read as a CIFAR batch ({reason}): fetch the original archive again"
        ) from error
    if not isinstance(content, dict):
        raise FormatError(f"{path} is no CIFAR batch: it holds a {type(content).__name__}, not a dictionary")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}
