"""Data sets that live in memory: a torch `Dataset` or `DataLoader`, a Hugging Face `Dataset`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from ..core.errors import InputError, MissingExtraError, UnreadableImageError
from .sample import Picture, Sample, content_of, from_array, from_tensor, line, plain

_IMAGE_KEYS = ("image", "img", "pixel_values", "x")
_LABEL_KEYS = ("label", "labels", "fine_label", "target", "y")


class TorchSource:
    """A map-style torch data set of images, (image, label, …) tuples or dictionaries."""

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
        return Sample(_picture(image, f"sample {index}"), _label(label, f"sample {index}"), str(index))

    def listing(self) -> Iterator[str]:
        for index in range(len(self)):
            sample = self[index]
            yield line(sample.id, sample.label, content_of(sample.image))


class HuggingFaceSource:
    """A Hugging Face data set; its own fingerprint stands for the content."""

    def __init__(self, dataset: Any) -> None:
        features = dataset.features
        image = next((name for name, kind in features.items() if type(kind).__name__ == "Image"), None)
        if image is None:
            raise InputError(f"the data set has no image column; its columns: {', '.join(features)}")
        label = next((name for name, kind in features.items() if type(kind).__name__ == "ClassLabel"), None)
        self.dataset, self.image, self.label = dataset, image, label
        self.class_names = None if label is None else tuple(features[label].names)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        name = f"row {index} of the data set"
        try:
            row = self.dataset[index]
            image = plain(row[self.image])
        except (OSError, ValueError, AttributeError) as error:
            raise UnreadableImageError.of(name, str(error)[:120]) from error
        label = None if self.label is None else _label(row[self.label], name)
        return Sample(image, label, str(index))

    def listing(self) -> Iterator[str]:
        labels = [None] * len(self) if self.label is None else self.dataset[self.label]
        for index, label in enumerate(labels):
            yield line(str(index), label, self.dataset._fingerprint)


def open_object(value: Any) -> TorchSource | HuggingFaceSource:
    """A source over a data set object."""
    if isinstance(value, DataLoader):
        if not isinstance(value.sampler, SequentialSampler | RandomSampler):
            raise InputError(
                f"the DataLoader draws with a {type(value.sampler).__name__}: pass the data set itself, or "
                f"torch.utils.data.Subset(dataset, indices)"
            )
        value = value.dataset
    if hasattr(value, "features") and hasattr(value, "_fingerprint"):
        return HuggingFaceSource(value)
    if isinstance(value, IterableDataset) or not (
        hasattr(value, "__len__") and hasattr(value, "__getitem__")
    ):
        raise InputError(
            f"data of type {type(value).__name__} has no length and index: pass a path, or a data set with "
            f"__len__ and __getitem__"
        )
    return TorchSource(value)


def open_hub(name: str) -> HuggingFaceSource:
    """`hf:NAME?split=test&config=…`: a data set of the Hugging Face hub or its cache."""
    datasets = _datasets()
    name, _, query = name.removeprefix("hf:").partition("?")
    options = dict(parse_qsl(query))
    try:
        found = datasets.load_dataset(name, options.get("config"), split=options.get("split", "test"))
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"hf:{name} could not be opened ({reason}). Check name, split (?split=train) and connection, "
            f"or save the data set to a folder with save_to_disk and pass the folder"
        ) from error
    return HuggingFaceSource(found)


def open_saved(path: Path) -> HuggingFaceSource:
    """A folder written by `Dataset.save_to_disk`."""
    if (path / "dataset_dict.json").is_file():
        splits = sorted(folder.name for folder in path.iterdir() if folder.is_dir())
        raise InputError(f"{path} holds several splits: open one, for example {path / splits[-1]}")
    return HuggingFaceSource(_datasets().load_from_disk(str(path)))


def is_saved(path: Path) -> bool:
    return (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "hub") from error
    return datasets


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


def _label(label: Any, name: str) -> int | None:
    if label is None:
        return None
    if not re.fullmatch(r"-?\d+", str(label.item() if hasattr(label, "item") else label)):
        raise InputError(f"{name}: label {label!r} is not a whole number")
    return None if int(label) == -1 else int(label)
