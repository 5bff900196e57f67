"""Lists of image files and labels, `path label` a line, as OpenOOD has them."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.errors import InputError
from .bounds import LARGEST_LABEL
from .files import ImageFiles, require_pictures
from .formats import data_format
from .heif import MODERN
from .pictures import SUFFIXES

_UNLABELLED = -1
# An OpenOOD list lies some folders below the one its paths start from.
_LEVELS_UP = 4
# Bytes of a list; a line for each picture of ImageNet takes 70 MB.
_LARGEST = 2**28
_DIGITS = 20
# Letters of a wrong label that a message shows.
_SHOWN = 40
# Bytes that are looked at of a text file that may be a list or hold texts.
_BEGIN = 2**16


@data_format(
    "list",
    title="a list (.txt with `path label` lines)",
    suffixes=(".txt", ".lst", ".list"),
    rooted=True,
)
def open_list(path: Path, *, root: Path | None = None) -> ImageFiles:
    """A text file with `path label` a line; a label of -1, or none, is no label.

    Paths start from ``root``, else from the list's folder or the nearest one above it where the first exists.
    """
    files: list[tuple[str, int | None]] = []
    size = path.stat().st_size
    if size > _LARGEST:
        raise InputError(f"{path} is too long for a list: {size:,} bytes, at most {_LARGEST:,}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file of `path label` lines: {error.reason}") from error
    for number, entry in enumerate(text.splitlines(), start=1):
        if entry.strip():
            files.append(_entry(entry.strip(), f"{path}, line {number}"))
    require_pictures(files, path)
    return ImageFiles(root or _root_of(path, files[0][0]), files)


def looks_like_list(path: Path) -> bool:
    """Whether a text file names pictures, or is none: its first entry has a picture's suffix, exists, or is
    one word and a label. Of sentences none is so."""
    try:
        with path.open("rb") as file:
            begin = file.read(_BEGIN).decode("utf-8", "replace")
    except OSError:
        return True
    first = next((entry.strip() for entry in begin.splitlines() if entry.strip()), "")
    if not first or "\0" in begin:
        return True
    name, _, last = first.rpartition(" ")
    if any(Path(one).suffix.lower() in SUFFIXES | MODERN for one in (first, name)):
        return True
    if len(name.split()) == 1 and re.fullmatch(r"-?[0-9]+", last):
        return True
    try:
        return any((_root_of(path, one) / one).is_file() for one in (first, name) if one)
    except (OSError, ValueError):  # longer than any path
        return False


def _entry(entry: str, where: str) -> tuple[str, int | None]:
    name, _, last = entry.rpartition(" ")
    if not name:
        return entry, None
    if not re.fullmatch(r"-?[0-9]+", last):
        if Path(entry).suffix.lower() in SUFFIXES | MODERN:
            return entry, None
        raise InputError(f"{where}: {last[:_SHOWN]!r} is not a label, expected `path label` with a number")
    if len(last) > _DIGITS or not _UNLABELLED <= int(last) <= LARGEST_LABEL:
        raise InputError(
            f"{where}: label {last[:_SHOWN]} is out of range, expected 0 or more, or -1 for none"
        )
    return name, None if int(last) == _UNLABELLED else int(last)


def _root_of(path: Path, first: str) -> Path:
    for folder in list(path.resolve().parents)[:_LEVELS_UP]:
        if (folder / first).is_file():
            return folder
    return path.parent
