"""Pictures stacked in one array: .npy, .npz, and what idx files and CIFAR batches are made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from .bounds import LARGEST_LABEL
from .formats import data_format
from .npy import ArrayArchive, Stack, mapped_array
from .sample import Sample, fingerprint, from_array, line

_IMAGE_KEYS = ("images", "image", "data", "x", "x_test", "x_train", "arr_0")
_LABEL_KEYS = ("labels", "label", "targets", "y")
# Labels that belong to pictures of another name than the usual ones, and to no others.
_OWN_LABELS = {"x_test": "y_test", "x_train": "y_train"}
# Names that a message about an archive lists.
_NAMED = 20


class ImageStack:
    """An array of pictures (N, …) with optional labels; ids are `name#index`."""

    from_arrays = content_digests = True

    def __init__(
        self,
        name: str,
        images: Stack,
        labels: Stack | None = None,
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        if images.ndim not in (3, 4) or images.size == 0:
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

    def labels_of_samples(self) -> list[int | None]:
        return [self._label(index) for index in range(len(self))]

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
    return ImageStack(path.name, mapped_array(path), None if labels is None else mapped_array(labels))


@data_format("npz", title=".npz", suffixes=(".npz",))
def open_npz(path: Path) -> ImageStack:
    """An archive with one array of pictures, and one of labels under a usual name."""
    archive = ArrayArchive(path)
    images = archive.one_of(_IMAGE_KEYS, "pictures")
    if images is None:
        raise InputError(
            f"{path} holds {', '.join(archive.names[:_NAMED]) or 'nothing'}, but no pictures: name the "
            f"array one of {', '.join(_IMAGE_KEYS)}"
        )
    own = _OWN_LABELS.get(images.lower())
    labels = archive.one_of(_LABEL_KEYS if own is None else (own,), "labels")
    return ImageStack(path.name, archive.read(images), None if labels is None else archive.read(labels))


def _checked(labels: Stack, rows: int, class_names: tuple[str, ...] | None, name: str) -> Stack:
    labels = np.asarray(labels)
    if labels.size == rows:
        labels = labels.reshape(-1)
    if labels.shape != (rows,):
        raise InputError(f"{name}: labels have shape {labels.shape}, expected ({rows},), one a picture")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{name}: labels have dtype {labels.dtype}, expected integers")
    low, high = int(labels.min()), int(labels.max())
    top = LARGEST_LABEL if class_names is None else len(class_names) - 1
    if low < 0 or high > top:
        expected = "0 or more" if class_names is None and low < 0 else f"0..{top}"
        raise InputError(f"{name}: labels run from {low} to {high}, expected {expected}")
    return labels
