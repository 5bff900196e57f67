"""One of several equal parts of a source, for machines that each extract a part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from ..core.errors import InputError
from .files import ImageFiles
from .sample import ImageSource, Sample


class Part:
    """The ``number``-th of ``count`` runs of neighbouring samples, from 1; ids and labels stay."""

    def __init__(self, source: ImageSource, number: int, count: int) -> None:
        if not 1 <= number <= count <= len(source):
            raise InputError(f"part {number}/{count} of {len(source)} samples does not exist")
        self.source = source
        self.class_names = source.class_names
        self.rows = range(len(source) * (number - 1) // count, len(source) * number // count)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        return self.source[self.rows[index]]

    def listing(self) -> Iterator[str]:
        """Of files only those of the part are looked at; other sources have to be run through."""
        if isinstance(self.source, ImageFiles):
            files = self.source.files[self.rows.start : self.rows.stop]
            return ImageFiles(self.source.root, files).listing()
        return islice(self.source.listing(), self.rows.start, self.rows.stop)


def part_of(source: ImageSource, text: str) -> Part:
    """The part that ``"2/8"`` names."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None:
        raise InputError(f"a part is written as 2/8, the second of eight; got {text!r}")
    return Part(source, int(found[1]), int(found[2]))
