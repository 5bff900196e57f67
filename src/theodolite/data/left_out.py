"""What a folder holds beside its pictures: counted, with the reason, and said where the folder is used."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import TheodoliteWarning
from .sample import ImageSource

_NAMED = 3


class LeftOut(NamedTuple):
    """A file or folder without samples: its path relative to the source, and why it has none."""

    name: str
    reason: str


def left_out_of(source: ImageSource) -> tuple[LeftOut, ...]:
    """What a source leaves out; most kinds of data have nothing to leave out."""
    found: tuple[LeftOut, ...] = getattr(source, "left_out", ())
    return found


def describe_left_out(left_out: Sequence[LeftOut]) -> str:
    """How many are left out for which reason, with their first names: ``suffix .mp4: 2 (a.mp4, b.mp4)``."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out:
        names.setdefault(reason, []).append(name)
    parts = []
    for reason, found in sorted(names.items(), key=lambda item: (-len(item[1]), item[0])):
        more = ", …" if len(found) > _NAMED else ""
        parts.append(f"{reason}: {len(found):,} ({', '.join(found[:_NAMED])}{more})")
    return "; ".join(parts)


def warn_left_out(source: ImageSource, name: str) -> None:
    """Warn if a source leaves anything out; ``name`` is what it is called."""
    left_out = left_out_of(source)
    if left_out:
        count = f"{len(left_out):,} {'entry is' if len(left_out) == 1 else 'entries are'}"
        warnings.warn(
            f"{name}: {count} left out ({describe_left_out(left_out)})", TheodoliteWarning, stacklevel=2
        )
