"""One of several equal parts of a source, for machines that each extract a part."""

from __future__ import annotations

import re

from ..core.errors import InputError
from .sample import ImageSource
from .selection import Selection


def part_of(source: ImageSource, text: str) -> Selection:
    """The part that ``"2/8"`` names: the second of eight runs of neighbouring samples."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None:
        raise InputError(f"a part is written as 2/8, the second of eight; got {text!r}")
    number, count = int(found[1]), int(found[2])
    if not 1 <= number <= count <= len(source):
        raise InputError(f"part {number}/{count} of {len(source)} samples does not exist")
    return Selection(source, range(len(source) * (number - 1) // count, len(source) * number // count))
