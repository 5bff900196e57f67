"""Labels by the names of their classes: numbered as a model numbers them.

A file numbers the names that it holds in alphabetic order, and a model in the order of its training. Where
the model knows every name of the data, its numbers are taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from .sample import ImageSource, Sample, held_by, labels_of


class Relabelled:
    """A source whose labels have other numbers; ids and contents stay."""

    def __init__(self, source: ImageSource, names: tuple[str, ...]) -> None:
        assert source.class_names is not None
        self.source, self.class_names = source, names
        self.holds = held_by(source)
        self.from_arrays = getattr(source, "from_arrays", False)
        self.content_digests = getattr(source, "content_digests", False)
        self.left_out = getattr(source, "left_out", ())
        self._numbers = [names.index(name) for name in source.class_names]

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


def labelled_as(source: ImageSource, names: tuple[str, ...] | None) -> ImageSource:
    """The source with the numbers of a model that knows ``names``, if those of the data are among them."""
    own = source.class_names
    if names is None or own is None or own == names or len(set(names)) < len(names):
        return source
    return Relabelled(source, names) if set(own) <= set(names) else source
