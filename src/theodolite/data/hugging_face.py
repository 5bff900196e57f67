"""Hugging Face data sets: in memory, in a folder of `save_to_disk`, or on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ..core.errors import FormatError, InputError, MissingExtraError, UnreadableImageError
from .formats import data_format
from .sample import Sample, line, plain, whole_label


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
        label = None if self.label is None else whole_label(row[self.label], name)
        return Sample(image, label, str(index))

    def labels_of_samples(self) -> list[int | None]:
        if self.label is None:
            return [None] * len(self)
        named = enumerate(self.dataset[self.label])
        return [whole_label(label, f"row {index} of the data set") for index, label in named]

    def listing(self) -> Iterator[str]:
        labels = [None] * len(self) if self.label is None else self.dataset[self.label]
        for index, label in enumerate(labels):
            yield line(str(index), label, self.dataset._fingerprint)


def is_saved(path: Path) -> bool:
    """Whether a folder was written by `save_to_disk`, of one split or of several."""
    return (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()


@data_format("saved", place="folder", named=is_saved)
def open_saved(path: Path) -> HuggingFaceSource:
    """A folder written by `Dataset.save_to_disk`."""
    if not is_saved(path):
        raise InputError(f"{path} was not written by Dataset.save_to_disk: it has no state.json")
    if (path / "dataset_dict.json").is_file():
        splits = sorted(folder.name for folder in path.iterdir() if folder.is_dir())
        if not splits:
            raise FormatError(f"{path} names splits in dataset_dict.json, but holds none: write it again")
        raise InputError(f"{path} holds several splits: open one, for example {path / splits[-1]}")
    datasets = _datasets()
    try:
        found = datasets.load_from_disk(str(path))
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(
            f"{path} is not a whole folder of Dataset.save_to_disk ({reason}): write it again"
        ) from error
    return HuggingFaceSource(found)


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


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "hub") from error
    return datasets
