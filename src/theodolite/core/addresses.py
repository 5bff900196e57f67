"""What is given in place of a path: a web address, from which nothing is fetched, or nothing at all."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import InputError

# A Path has already made one slash of two.
_ADDRESS = re.compile(r"(?:https?|ftp|s3|gs|file|data):/", re.IGNORECASE)


def is_address(value: str | Path) -> bool:
    """Whether a text, or a path made of one, is a web address."""
    return _ADDRESS.match(str(value)) is not None


def require_named(path: str | Path) -> None:
    """Refuse an empty path, which would be the working directory."""
    if not str(path).strip():
        raise InputError("the data path is empty: name a folder or a file (. is the working directory)")
