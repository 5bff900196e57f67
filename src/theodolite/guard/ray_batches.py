"""A batch of a `ray.data.Dataset` as a source of pictures: which columns it has, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..core.errors import InputError
from ..data.parquet import fetched, held_in
from ..data.sample import Sample, as_picture, decode_image, fingerprint, from_array, whole_label
from ..features.listing import content_bits

# A batch of Ray Data, by the names of its columns.
Columns: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class DatasetColumns:
    """The columns of a dataset: pictures, encoded, as uint8 arrays or as the places where they are; labels.

    ``id`` names the samples; without it a picture is called by its place, or by a digest of its bytes, and
    one that is there twice is refused.

    >>> th.DatasetColumns(picture="image", label="class", id="key").label
    'class'
    """

    picture: str = "image"
    label: str | None = None
    id: str | None = None


class BatchSource:
    """The pictures of a batch as a source; ``contents`` are 63 bits for each that was read, by its name."""

    class_names = None

    def __init__(self, batch: Columns, columns: DatasetColumns) -> None:
        wanted = [name for name in (columns.picture, columns.label, columns.id) if name is not None]
        missing = [name for name in wanted if name not in batch]
        if missing:
            raise InputError(
                f"the dataset has no column {missing[0]!r}, it has {', '.join(map(repr, batch))}: say which "
                f"holds the pictures, DatasetColumns(picture, label, id)"
            )
        self._pictures = batch[columns.picture]
        self._labels = None if columns.label is None else batch[columns.label]
        self._ids = None if columns.id is None else batch[columns.id]
        self.contents: dict[str, int] = {}
        # Beside one that is missing, Ray gives whole numbers as floats: they are not what is wrong.
        for index, label in enumerate(() if self._labels is None else self._labels):
            if label is None or label != label:
                raise _unlabelled(self._named(index)[0])

    def __len__(self) -> int:
        return len(self._pictures)

    def listing(self) -> Iterator[str]:
        raise InputError("a batch has no listing")

    def __getitem__(self, index: int) -> Sample:
        name, content, digest = self._named(index)
        self.contents[name] = content_bits(digest)
        label = None
        if self._labels is not None and (label := whole_label(self._labels[index], name)) is None:
            raise _unlabelled(name)
        cell = self._pictures[index]
        if isinstance(cell, np.ndarray):
            return Sample(as_picture(from_array(cell, name)), label, name)
        return Sample(decode_image(content, name), label, name)

    def _named(self, index: int) -> tuple[str, bytes, str]:
        """What a picture is called, its bytes, and what tells them from others."""
        cell = self._pictures[index]
        cell = held_in(cell) if isinstance(cell, dict) else cell
        if isinstance(cell, np.ndarray):
            content = np.ascontiguousarray(cell).tobytes()
        else:
            content = fetched(cell, cell) if isinstance(cell, str) else bytes(cell or b"")
        digest = f"{len(content)}:{fingerprint(content)}"
        given = None if self._ids is None else str(self._ids[index])
        return given or (cell if isinstance(cell, str) else digest), content, digest


def _unlabelled(name: str) -> InputError:
    return InputError(
        f"{name} of the dataset has no label, and others have one: filter such rows out before, or name no "
        f"column of labels"
    )
