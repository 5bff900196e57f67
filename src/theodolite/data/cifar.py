"""CIFAR-10 and CIFAR-100 python batches: pickles, read without letting them run anything."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import FormatError, InputError
from .formats import data_format
from .stacks import ImageStack

_SHAPE = (-1, 3, 32, 32)
# All that an array in a pickle is made of; every other name is refused before it is looked up.
_ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays and builtin containers; a pickle that asks for anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR batch needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def is_cifar(path: Path) -> bool:
    """Whether a file or folder has the name of CIFAR python batches."""
    if path.is_dir():
        return (path / "batches.meta").is_file() or (path / "meta").is_file()
    named = path.name.startswith(("data_batch", "test_batch"))
    return named or (path.name in ("train", "test") and path.with_name("meta").is_file())


@data_format("cifar", title="a CIFAR batch", place="either", named=is_cifar)
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
    if not isinstance(images, np.ndarray) or images.shape[1:] != (3 * 32 * 32,) or labels is None:
        raise FormatError(f"{path} is no CIFAR batch: expected `data` of shape (N, 3072) and `labels`")
    return images.astype(np.uint8).reshape(_SHAPE), np.asarray(labels, dtype=np.int64)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    for file, key in (("batches.meta", b"label_names"), ("meta", b"fine_label_names")):
        if (folder / file).is_file():
            names = _read(folder / file).get(key)
            return None if names is None else tuple(name.decode() for name in names)
    return None


def _read(path: Path) -> dict[bytes, Any]:
    try:
        content = _PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise FormatError(
            f"{path} cannot be read as a CIFAR batch ({reason}): fetch the original archive again"
        ) from error
    if not isinstance(content, dict):
        raise FormatError(f"{path} is no CIFAR batch: it holds a {type(content).__name__}, not a dictionary")
    return {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}
