"""Hugging Face data sets of pictures or texts: in memory, in a folder of `save_to_disk`, or on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ..core.errors import FormatError, InputError, MissingExtraError, UnreadableImageError
from .formats import data_format
from .sample import TEXTS, Sample, line, plain, whole_label
from .text_columns import TextColumns
from .text_labels import text_labels
from .texts import content_of_text, require_text

_STRINGS = ("string", "large_string")


class HuggingFaceSource:
    """A Hugging Face data set of pictures; its own fingerprint stands for the content."""

    def __init__(self, dataset: Any, image: str) -> None:
        self.dataset, self.image, self.label = dataset, image, _class_label(dataset)
        self.class_names = None if self.label is None else tuple(dataset.features[self.label].names)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        name = _row(index)
        try:
            row = self.dataset[index]
            image = plain(row[self.image])
        except (OSError, ValueError, AttributeError) as error:
            raise UnreadableImageError.of(name, str(error)[:120]) from error
        label = None if self.label is None else whole_label(row[self.label], name)
        return Sample(image, label, str(index))

    def labels_of_samples(self) -> list[int | None]:
        return _labels(self.dataset, self.label)

    def listing(self) -> Iterator[str]:
        labels = [None] * len(self) if self.label is None else self.dataset[self.label]
        for index, label in enumerate(labels):
            yield line(str(index), label, self.dataset._fingerprint)


class HuggingFaceTexts:
    """A Hugging Face data set of texts; labels are a column of classes, of whole numbers, or of names."""

    holds = TEXTS
    from_arrays = content_digests = True

    def __init__(self, dataset: Any, text: str, label: str | None) -> None:
        self.dataset, self.text = dataset, text
        given = [None] * len(dataset) if label is None else list(dataset[label])
        rows = [_row(index) for index in range(len(dataset))]
        self._labels, self.class_names = text_labels(given, rows, f"column {label!r} of the data set")
        if label is not None and type(dataset.features[label]).__name__ == "ClassLabel":
            self.class_names = tuple(dataset.features[label].names)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        text = require_text(self.dataset[index][self.text], _row(index))
        return Sample(text, self._labels[index], str(index))

    def labels_of_samples(self) -> list[int | None]:
        return list(self._labels)

    def listing(self) -> Iterator[str]:
        rows = zip(self._labels, self.dataset[self.text], strict=True)
        for index, (label, text) in enumerate(rows):
            yield line(str(index), label, content_of_text(text))


def open_dataset(
    dataset: Any, *, text: str | None = None, label: str | None = None
) -> HuggingFaceSource | HuggingFaceTexts:
    """The pictures of a data set, or the texts of one without; ``text`` and ``label`` name their columns."""
    features = dataset.features
    image = next((name for name, kind in features.items() if type(kind).__name__ == "Image"), None)
    if image is not None and text is None and label is None:
        return HuggingFaceSource(dataset, image)
    for column in (text, label):
        if column is not None and column not in features:
            raise InputError(f"the data set has no column {column!r}; its columns: {', '.join(features)}")
    strings = [name for name, kind in features.items() if getattr(kind, "dtype", None) in _STRINGS]
    if not strings:
        raise InputError(f"the data set has no image or text column; its columns: {', '.join(features)}")
    text = text or TextColumns.among([*features], strings, "the data set").text
    named = label or _class_label(dataset) or TextColumns.usual_label([*features], text)
    kind = None if named is None else str(getattr(features[named], "dtype", ""))
    if text not in strings or not (kind is None or kind in _STRINGS or kind.startswith(("int", "uint"))):
        raise InputError(
            f"the texts are a column of strings and the labels one of whole numbers or of names, and "
            f"{text!r} or {named!r} is none; its columns: "
            f"{', '.join(f'{name} {kind}' for name, kind in features.items())}"
        )
    return HuggingFaceTexts(dataset, text, named)


def _class_label(dataset: Any) -> str | None:
    kinds = dataset.features.items()
    return next((name for name, kind in kinds if type(kind).__name__ == "ClassLabel"), None)


def is_saved(path: Path) -> bool:
    """Whether a folder was written by `save_to_disk`, of one split or of several."""
    return (path / "state.json").is_file() or (path / "dataset_dict.json").is_file()


@data_format("saved", place="folder", named=is_saved)
def open_saved(path: Path) -> HuggingFaceSource | HuggingFaceTexts:
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
    return open_dataset(found)


def open_hub(name: str) -> HuggingFaceSource | HuggingFaceTexts:
    """`hf:NAME?split=test&config=…`: a data set of the Hugging Face hub or its cache; ``&text=`` and
    ``&label=`` name the columns of texts and labels."""
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
    return open_dataset(found, text=options.get("text"), label=options.get("label"))


def _row(index: int) -> str:
    return f"row {index} of the data set"


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("datasets", "hub") from error
    return datasets


def _labels(dataset: Any, column: str | None) -> list[int | None]:
    """The labels of a column, row by row."""
    if column is None:
        return [None] * len(dataset)
    return [whole_label(label, _row(index)) for index, label in enumerate(dataset[column])]
