"""Labels by the names of their classes: numbered as a model numbers them.

A file numbers the names that it holds in alphabetic order, and a model in the order of its training. Where
the model knows names of the data, its numbers are taken, and a name that it does not know is no label: a
number of the file's own would be that of another class.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence

from ..core.errors import TheodoliteWarning
from .sample import ImageSource, Sample, held_by, labels_of

_MADE_UP = re.compile(r"LABEL_[0-9]+")
# Names that a warning lists.
_NAMED = 4


class Relabelled:
    """A source whose labels have other numbers; ids and contents stay."""

    def __init__(self, source: ImageSource, names: tuple[str, ...]) -> None:
        assert source.class_names is not None
        self.source, self.class_names = source, names
        self.holds = held_by(source)
        self.from_arrays = getattr(source, "from_arrays", False)
        self.content_digests = getattr(source, "content_digests", False)
        self.left_out = getattr(source, "left_out", ())
        known = {name: number for number, name in enumerate(names)}
        self._numbers = [known.get(name) for name in source.class_names]

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Sample:
        sample = self.source[index]
        return Sample(sample.content, self._number(sample.label), sample.id)

    def labels_of_samples(self) -> list[int | None]:
        return [self._number(label) for label in labels_of(self.source)]

    def listing(self) -> Iterator[str]:
        for entry in self.source.listing():
            identity, label, content = entry.rsplit("\t", 2)
            number = None if label == "-" else self._number(int(label))
            yield f"{identity}\t{'-' if number is None else number}\t{content}"

    def _number(self, label: int | None) -> int | None:
        return None if label is None else self._numbers[label]


def labelled_as(source: ImageSource, names: tuple[str, ...] | None, what: str = "the data") -> ImageSource:
    """The source with the numbers of a model that knows ``names``; a warning says which of the data's are not
    among them. Names that transformers makes up (LABEL_0 …) say nothing: numbers then are the file's."""
    own = source.class_names
    if names is None or own is None or own == names or len(set(names)) < len(names):
        return source
    if all(map(_MADE_UP.fullmatch, names)) and not set(own) & set(names):
        return source
    strange = sorted(set(own) - set(names))
    if strange:
        warnings.warn(
            f"{what}: the model has no class of the name {_some(strange)} (it has {_some(names)}): such a "
            f"label counts as none, and data of which some have none is taken as data without labels",
            TheodoliteWarning,
            stacklevel=2,
        )
    return Relabelled(source, names)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(map(repr, names[:_NAMED]))}{more}"
