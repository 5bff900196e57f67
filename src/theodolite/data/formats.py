"""The registry of data formats: a format is one file, which enters itself here.

    @data_format("toy", suffixes=(".toy",))
    def open_toy(path: Path) -> ImageSource: ...

What a path is, is asked in three rounds: who knows its name, who its suffix, who its content. The quick looks
come first, and within a round the formats answer in the order in which they were entered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from ..core.errors import InputError
from .sample import ImageSource

Check: TypeAlias = Callable[[Path], bool]
Place: TypeAlias = Literal["file", "folder", "either"]
Opener = TypeVar("Opener", bound=Callable[..., ImageSource])


def _unknown(_: Path) -> bool:
    return False


@dataclass(frozen=True)
class DataFormat:
    """One format: its kind, its opener, and what its paths look like."""

    kind: str
    open: Callable[..., ImageSource]
    title: str
    place: Place
    suffixes: frozenset[str]
    named: Check
    content: Check
    rooted: bool
    patterns: bool

    def lies_at(self, path: Path) -> bool:
        """Whether the path is a file or a folder as the format is one."""
        return self.place == "either" or path.is_dir() == (self.place == "folder")

    def has_suffix(self, path: Path) -> bool:
        return path.suffix.lower() in self.suffixes


_formats: dict[str, DataFormat] = {}


def data_format(
    kind: str,
    *,
    title: str = "",
    place: Place = "file",
    suffixes: Collection[str] = (),
    named: Check = _unknown,
    content: Check = _unknown,
    rooted: bool = False,
    patterns: bool = False,
) -> Callable[[Opener], Opener]:
    """Function decorator: enter the opener of a format under its ``kind``.

    A path is of this format if ``named(path)`` says so, if its suffix is one of ``suffixes``, or if
    ``content(path)`` says so; a format with none of the three is opened by its kind alone. ``title`` is what
    the message about a path that nobody knows calls it. A ``rooted`` opener takes ``root=``, the folder where
    the paths within the file start; one with ``patterns`` also takes a path whose name is a pattern (``*``).
    """

    def enter(opener: Opener) -> Opener:
        known = _formats.get(kind)
        if known is not None and known.open.__module__ != opener.__module__:
            raise InputError(f"the kind {kind!r} is taken by {known.open.__module__}: choose another one")
        endings = frozenset(suffix.lower() for suffix in suffixes)
        _formats[kind] = DataFormat(kind, opener, title, place, endings, named, content, rooted, patterns)
        return opener

    return enter


def list_formats() -> list[DataFormat]:
    """All formats, in the order in which they were entered."""
    return list(_formats.values())


def find_format(kind: str) -> DataFormat:
    """The format of a kind."""
    if kind not in _formats:
        raise InputError(f"kind {kind!r} is unknown; known: {', '.join(_formats)}")
    return _formats[kind]


def recognise(path: Path) -> DataFormat | None:
    """The format that a path has; None where no format knows it."""
    possible = [entry for entry in _formats.values() if entry.lies_at(path)]
    named = (entry for entry in possible if entry.named(path))
    ending = (entry for entry in possible if entry.has_suffix(path))
    holding = (entry for entry in possible if entry.content(path))
    return next((entry for found in (named, ending, holding) for entry in found), None)
