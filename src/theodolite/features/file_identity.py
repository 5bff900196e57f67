"""Whether a file is still the one that was read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Identity(NamedTuple):
    """What changes with every write to a file, and costs no look into it."""

    inode: int
    size: int
    modified: int
    changed: int


def identity_of(path: Path) -> Identity | None:
    """None where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return Identity(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
