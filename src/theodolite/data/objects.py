"""Data sets that live in memory: a torch `Dataset` or `DataLoader`, or anything with length and index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from ..core.arrays import require_no_table
from ..core.errors import InputError, UnreadableImageError
from .hugging_face import HuggingFaceSource, HuggingFaceTexts, open_dataset
from .sample import Picture, Sample, content_of, from_array, from_tensor, line, plain, whole_label

_IMAGE_KEYS = ("image", "img", "pixel_values", "x")
_LABEL_KEYS = ("label", "labels", "fine_label", "target", "y")


class TorchSource:
    """A map-style torch data set of images, (image, label, …) tuples or dictionaries."""

    content_digests = True

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        names = getattr(dataset, "classes", None)
        self.class_names = tuple(str(name) for name in names) if isinstance(names, list | tuple) else None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        try:
            image, label = _parts(self.dataset[index])
        except (OSError, SyntaxError) as error:
            raise UnreadableImageError.of(f"sample {index}", " ".join(str(error).split())[:120]) from error
        return Sample(_picture(image, f"sample {index}"), whole_label(label, f"sample {index}"), str(index))

    def labels_of_samples(self) -> list[int | None]:
        """Those that torchvision's data sets keep apart, else those of the samples, one by one."""
        known = getattr(self.dataset, "targets", None)
        if isinstance(known, list | tuple | np.ndarray | Tensor) and len(known) == len(self):
            return [whole_label(label, f"sample {index}") for index, label in enumerate(known)]
        return [self[index].label for index in range(len(self))]

    def listing(self) -> Iterator[str]:
        for index in range(len(self)):
            sample = self[index]
            yield line(sample.id, sample.label, content_of(sample.image))


def open_object(value: Any) -> TorchSource | HuggingFaceSource | HuggingFaceTexts:
    """A source over a data set object."""
    if isinstance(value, DataLoader):
        if not isinstance(value.sampler, SequentialSampler | RandomSampler):
            raise InputError(
                f"the DataLoader draws with a {type(value.sampler).__name__}: pass the data set itself, or "
                f"torch.utils.data.Subset(dataset, indices)"
            )
        value = value.dataset
    require_no_table(value, "data")
    if hasattr(value, "features") and hasattr(value, "_fingerprint"):
        return open_dataset(value)
    if isinstance(value, IterableDataset) or not (
        hasattr(value, "__len__") and hasattr(value, "__getitem__")
    ):
        raise InputError(
            f"data of type {type(value).__name__} has no length and index: pass a path, or a data set with "
            f"__len__ and __getitem__"
        )
    return TorchSource(value)


def _parts(item: Any) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        image = next((item[key] for key in _IMAGE_KEYS if key in item), None)
        return image, next((item[key] for key in _LABEL_KEYS if key in item), None)
    if isinstance(item, tuple | list):
        return (item[0], item[1] if len(item) > 1 else None) if item else (None, None)
    return item, None


def _picture(image: Any, name: str) -> Picture:
    if isinstance(image, Image.Image):
        return plain(image)
    if isinstance(image, Tensor):
        return from_tensor(image, name)
    if isinstance(image, np.ndarray):
        return from_array(image, name)
    raise InputError(f"{name} is a {type(image).__name__}, expected a PIL image, an array or a tensor")
