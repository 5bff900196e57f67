"""Pictures stacked in one array: .npy, .npz, and what idx files and CIFAR batches are made of."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core.errors import FormatError, InputError
from .formats import data_format
from .sample import Sample, fingerprint, from_array, line

Stack = npt.NDArray[np.generic]
_IMAGE_KEYS = ("images", "image", "data", "x", "x_test", "x_train", "arr_0")
_LABEL_KEYS = ("labels", "label", "targets", "y", "y_test", "y_train")


class ImageStack:
    """An array of pictures (N, …) with optional labels; ids are `name#index`."""

    def __init__(
        self,
        name: str,
        images: Stack,
        labels: Stack | None = None,
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        if images.ndim not in (3, 4) or len(images) == 0:
            raise InputError(
                f"{name}: images have shape {images.shape}, expected (N, height, width), (N, height, width, "
                f"channels) or (N, channels, height, width) with at least one picture"
            )
        self.name = name
        self.images = images
        self.labels = None if labels is None else _checked(labels, len(images), class_names, name)
        self.class_names = class_names
        self[0]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        identity = f"{self.name}#{index}"
        return Sample(from_array(np.asarray(self.images[index]), identity), self._label(index), identity)

    def listing(self) -> Iterator[str]:
        for index in range(len(self)):
            content = fingerprint(np.ascontiguousarray(self.images[index]).tobytes())
            yield line(f"{self.name}#{index}", self._label(index), content)

    def _label(self, index: int) -> int | None:
        return None if self.labels is None else int(self.labels[index])


@data_format("npy", title=".npy", suffixes=(".npy",))
def open_npy(path: Path) -> ImageStack:
    """An array file, mapped into memory; labels in `NAME_labels.npy` or `labels.npy` beside it."""
    beside = [path.with_name(f"{path.stem}_labels.npy"), path.with_name("labels.npy")]
    labels = next((file for file in beside if file.is_file() and file != path), None)
    return ImageStack(path.name, _read(path), None if labels is None else _read(labels))


@data_format("npz", title=".npz", suffixes=(".npz",))
def open_npz(path: Path) -> ImageStack:
    """An archive with one array of pictures, and one of labels under a usual name."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = {key.lower(): key for key in archive.files}
            key = next((names[key] for key in _IMAGE_KEYS if key in names), None)
            if key is None:
                raise InputError(
                    f"{path} holds {', '.join(archive.files) or 'nothing'}, but no pictures: name the "
                    f"array one of {', '.join(_IMAGE_KEYS)}"
                )
            label_key = next((names[key] for key in _LABEL_KEYS if key in names), None)
            return ImageStack(path.name, archive[key], None if label_key is None else archive[label_key])
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(path, error) from error


def _read(path: Path) -> Stack:
    try:
        array: Stack = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise _damaged(path, error) from error
    return array


def _damaged(path: Path, error: Exception) -> FormatError:
    reason = " ".join(str(error).split())[:120]
    return FormatError(
        f"{path} is damaged or not a NumPy file of plain numbers ({reason}): save it again with np.save or "
        f"np.savez"
    )


def _checked(labels: Stack, rows: int, class_names: tuple[str, ...] | None, name: str) -> Stack:
    labels = np.asarray(labels)
    if labels.size == rows:
        labels = labels.reshape(-1)
    if labels.shape != (rows,):
        raise InputError(f"{name}: labels have shape {labels.shape}, expected ({rows},), one a picture")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{name}: labels have dtype {labels.dtype}, expected integers")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or (class_names is not None and high >= len(class_names)):
        top = "" if class_names is None else f"..{len(class_names) - 1}"
        raise InputError(f"{name}: labels run from {low} to {high}, expected 0{top or ' or more'}")
    return labels
