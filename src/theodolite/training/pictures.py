"""Labelled pictures as bytes in memory: read once from wherever they are, resized as the model wants them."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, TrainingWarning
from ..data import ImageSource, as_picture
from ..data.orientation import upright
from ..data.sample import labels_of
from ..models import LoadedModel
from ..models.preprocess import Pixels

# Bytes of pictures that are kept in memory at most.
LARGEST = 2**34
_THREADS = 2
_CHUNK = 1_000


@dataclass(frozen=True)
class LabelledPictures:
    """Bytes (N, C, H, W) with labels (N,), and how bytes become the model's input."""

    images: Tensor
    labels: Tensor
    pixels: Pixels
    class_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.images)

    @property
    def classes(self) -> int:
        return classes_of(self.labels, self.class_names)

    @cached_property
    def digest(self) -> str:
        """sha256 over pictures and labels, and over the names of the classes where there are any."""
        digest = hashlib.sha256(f"{tuple(self.images.shape)}\n".encode())
        if self.class_names is not None:
            digest.update(repr(self.class_names).encode())
        digest.update(self.images.numpy().data)
        digest.update(self.labels.numpy().data)
        return digest.hexdigest()

    def prepared(self, images: Tensor, device: torch.device) -> Tensor:
        return prepared(images, self.pixels, device)


def prepared(images: Tensor, pixels: Pixels, device: torch.device) -> Tensor:
    """Bytes as the model's input: (x / 255 − mean) / std."""
    mean, std = (torch.tensor(values, device=device)[:, None, None] for values in (pixels.mean, pixels.std))
    return (images.to(device).float() / 255 - mean) / std


def pixels_of(loaded: LoadedModel) -> Pixels:
    """The preprocessing of a model in numbers: training takes it apart, to put augmentations in between."""
    pixels = loaded.preprocess if isinstance(loaded.preprocess, Pixels) else loaded.pixels
    if pixels is None:
        raise InputError(
            f"{loaded.spec}: its preprocessing is code, and training has to know it in numbers: replace it "
            f"by options of the spec, such as ?size=32&mean=0.5&std=0.25"
        )
    return pixels


def labels_in(source: ImageSource) -> Tensor:
    """The label of every picture (N,); one without is an error."""
    labels = labels_of(source)
    missing = sum(label is None for label in labels)
    if missing:
        raise InputError(
            f"{missing:,} of {len(labels):,} pictures have no label: training needs one for each"
        )
    return torch.tensor(labels, dtype=torch.int64)


def classes_of(labels: Tensor, names: tuple[str, ...] | None) -> int:
    """As many classes as have names, or as the highest label says."""
    if len(labels) == 0 or bool((labels == labels[0]).all()):
        raise InputError(
            f"all {len(labels):,} pictures have one label: a classifier tells at least two apart"
        )
    return int(labels.max()) + 1 if names is None else len(names)


def warn_of_empty_classes(source: ImageSource) -> None:
    """Classes without a picture: a network has an answer for each, and learns nothing of these."""
    labels = labels_in(source)
    counts = torch.bincount(labels, minlength=classes_of(labels, source.class_names))
    empty = (counts == 0).nonzero().flatten().tolist()
    if empty:
        warnings.warn(
            f"{len(empty)} of {len(counts)} classes have no picture to learn from: {empty[:8]}. Labels "
            f"number the classes from 0; a class that is never shown is one that the network cannot know",
            TrainingWarning,
            stacklevel=2,
        )


def require_to_test_on(held_out: ImageSource, source: ImageSource) -> None:
    """Refuse pictures to measure accuracy on whose labels are none of those that are learnt from."""
    names, others = source.class_names, held_out.class_names
    if names is not None and others is not None and names != others:
        raise InputError(
            f"the classes of the held-out pictures are {', '.join(others)}, but those of the training are "
            f"{', '.join(names)}: a label would mean another class"
        )
    classes, highest = classes_of(labels_in(source), names), int(labels_in(held_out).max())
    if highest >= classes:
        raise InputError(
            f"the held-out pictures have labels up to {highest}, but those to train on number {classes} "
            f"classes from 0: a label would mean another class"
        )


def read_images(
    source: ImageSource, pixels: Pixels, *, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Tensor:
    """All pictures of a source as bytes (N, C, H, W); one that cannot be read is an error."""
    shape = (len(source), *pixels.input_shape)
    if np.prod(shape, dtype=np.int64) > LARGEST:
        raise InputError(
            f"{len(source):,} pictures of {pixels.size}×{pixels.size} are {np.prod(shape, dtype=np.int64):,} "
            f"bytes, and at most {LARGEST:,} are kept in memory: train on a sample (--limit), or on smaller "
            f"pictures (?size=)"
        )
    images = torch.empty(shape, dtype=torch.uint8)
    with ThreadPoolExecutor(_THREADS) as threads:
        for start in range(0, len(source), _CHUNK):
            places = range(start, min(start + _CHUNK, len(source)))
            read = threads.map(lambda place: _bytes(source, place, pixels), places)
            for place, picture in zip(places, read, strict=True):
                images[place] = picture
            progress(places.stop, len(source))
    return images


def _bytes(source: ImageSource, place: int, pixels: Pixels) -> Tensor:
    picture = upright(as_picture(source[place].image))
    channels, height, width = pixels.input_shape
    fitted = np.asarray(pixels.fitted(picture.convert("L" if channels == 1 else "RGB")))
    return torch.from_numpy(fitted.reshape(height, width, channels).transpose(2, 0, 1).copy())
