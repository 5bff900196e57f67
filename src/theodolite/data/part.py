"""One of several equal parts of a source, for machines that each work on a part."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..core.errors import InputError
from .sample import ImageSource
from .selection import Selection


@dataclass(frozen=True)
class PartOf:
    """The ``number``-th of ``count`` runs of neighbouring samples."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> PartOf:
        """The part that ``"2/8"`` names: the second of eight."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if found is None:
            raise InputError(f"a part is written as 2/8, the second of eight; got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def run(self, samples: int) -> range:
        """Its places among so many samples."""
        if not 1 <= self.number <= self.count <= samples:
            raise InputError(f"part {self} of {samples} samples does not exist")
        return range(samples * (self.number - 1) // self.count, samples * self.number // self.count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def part_of(source: ImageSource, text: str) -> Selection:
    """The part of a source that ``"2/8"`` names."""
    return Selection(source, PartOf.parse(text).run(len(source)))
