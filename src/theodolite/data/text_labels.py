"""Labels of texts: whole numbers, or names, which are numbered in alphabetic order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import InputError
from .sample import whole_label

# A whole number as tables have it; pandas writes 3.0 where a column lacks a label.
_WHOLE = re.compile(r"-?[0-9]{1,11}(\.0*)?", re.ASCII)


class TextLabels(NamedTuple):
    """A number a text, or none; and the names that the numbers stand for, where those were given."""

    numbers: list[int | None]
    names: tuple[str, ...] | None


def text_labels(given: Sequence[object], ids: Sequence[str], what: str) -> TextLabels:
    """Labels as they were ``given``, in the column ``what``; names beside numbers are refused."""
    found = [_label(label) for label in given]
    named = [label for label in found if isinstance(label, str)]
    if not named:
        pairs = zip(found, ids, strict=True)
        return TextLabels([whole_label(label, name) for label, name in pairs], None)
    if len(named) + found.count(None) < len(found):
        raise InputError(f"{what} holds names as well as numbers, expected either")
    names = tuple(sorted(set(named)))
    numbers = {name: number for number, name in enumerate(names)}
    return TextLabels([numbers[label] if isinstance(label, str) else None for label in found], names)


def _label(label: object) -> object:
    """The label of a row: an empty one is none, and what is written as a number is one."""
    if not isinstance(label, str):
        return label
    text = label.strip()
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else text or None
