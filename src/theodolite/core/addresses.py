"""Web addresses where a path is expected: nothing is fetched, and the message says so."""

from __future__ import annotations

import re
from pathlib import Path

# A Path has already made one slash of two.
_ADDRESS = re.compile(r"(?:https?|ftp|s3|gs|file|data):/", re.IGNORECASE)


def is_address(value: str | Path) -> bool:
    """Whether a text, or a path made of one, is a web address."""
    return _ADDRESS.match(str(value)) is not None
