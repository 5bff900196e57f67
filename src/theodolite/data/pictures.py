"""Which files are pictures: by their suffix, and without one by how they begin."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from . import heif
from .left_out import LeftOut

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
# How files of these formats begin; of a bitmap and a WebP see `_begins_as_picture`.
_BEGINNINGS = (
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"II*\x00",
    b"MM\x00*",
    *(mark + space for mark in (b"P2", b"P3", b"P5", b"P6") for space in (b"\n", b"\r", b" ", b"\t")),
)
_LOOKED_AT = 16


def is_picture(path: Path) -> bool:
    """Whether a path is a file that can be read as a picture here."""
    return why_no_picture(path) is None


def why_no_picture(path: Path) -> str | None:
    """Why a path is no picture that can be read here; None if it is one."""
    try:
        kind = path.stat().st_mode
    except OSError as error:
        dangling = path.is_symlink() and isinstance(error, FileNotFoundError)
        return "link to nothing" if dangling else _not_opened(error)
    if stat.S_ISDIR(kind):
        return "link to a folder, not followed"
    if not stat.S_ISREG(kind):
        return "no plain file"
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return None
    if suffix in heif.MODERN:
        return _why_not_modern(suffix)
    return f"suffix {suffix}" if suffix else _why_not_by_content(path)


def below(folder: Path) -> Iterator[Path | LeftOut]:
    """The files below a folder, but not what is hidden (``.ipynb_checkpoints``); links to folders are not
    followed, and a folder that may not be entered is left out."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = [entry for entry in os.scandir(here) if not entry.name.startswith(".")]
        except OSError as error:
            yield LeftOut(f"{here.relative_to(folder.parent).as_posix()}/", _not_opened(error))
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _why_not_modern(suffix: str) -> str | None:
    return None if suffix in heif.readable() else f"suffix {suffix}, read after {heif.REMEDY}"


def _why_not_by_content(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            start = file.read(_LOOKED_AT)
    except OSError as error:
        return _not_opened(error)
    if _begins_as_picture(start):
        return None
    suffix = heif.modern_suffix(start)
    return "no suffix, and no picture by its content" if suffix is None else _why_not_modern(suffix)


def _begins_as_picture(start: bytes) -> bool:
    bitmap = start[:2] == b"BM" and start[6:10] == bytes(4)
    webp = start[:4] == b"RIFF" and start[8:12] == b"WEBP"
    return bitmap or webp or start.startswith(_BEGINNINGS)


def _not_opened(error: OSError) -> str:
    return f"cannot be opened ({error.strerror})"
