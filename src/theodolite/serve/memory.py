"""Memory that is free goes back to the system.

Batches of every size leave holes of every size behind, and the C library keeps them for later: without a word
to it, a process grows to several times what it needs before it is flat.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; other C libraries have none, and some have no need of it."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


def give_back() -> None:
    """A few milliseconds, and the next batch asks for its pages again."""
    trim = _trim()
    if trim is not None:
        trim(0)
