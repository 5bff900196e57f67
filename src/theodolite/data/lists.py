"""Lists of image files and labels, `path label` a line, as OpenOOD has them."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import InputError
from .files import SUFFIXES, ImageFiles, require_pictures
from .formats import data_format

_UNLABELLED = -1
# An OpenOOD list lies some folders below the one its paths start from.
_LEVELS_UP = 4


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
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file of `path label` lines: {error.reason}") from error
    for number, entry in enumerate(text.splitlines(), start=1):
        if entry.strip():
            files.append(_entry(entry.strip(), f"{path}, line {number}"))
    require_pictures(files, path)
    return ImageFiles(root or _root_of(path, files[0][0]), files)


def _entry(entry: str, where: str) -> tuple[str, int | None]:
    name, _, last = entry.rpartition(" ")
    if not name:
        return entry, None
    try:
        label = int(last)
    except ValueError as error:
        if Path(entry).suffix.lower() in SUFFIXES:
            return entry, None
        raise InputError(f"{where}: {last!r} is not a label, expected `path label` with a number") from error
    if label < _UNLABELLED:
        raise InputError(f"{where}: label {label} is out of range, expected 0 or more, or -1 for none")
    return name, None if label == _UNLABELLED else label


def _root_of(path: Path, first: str) -> Path:
    for folder in list(path.resolve().parents)[:_LEVELS_UP]:
        if (folder / first).is_file():
            return folder
    return path.parent
