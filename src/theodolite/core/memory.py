"""Free memory: kept for the next batch where many come, given back to the system where few do.

A forward pass asks the C library for its activations and frees them again. Large ones come straight from the
system, page by page, and go back to it at once: on a CPU a convolutional network then waits for pages longer
than it computes. Kept, they are there for the next batch.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Of glibc's malloc.h: what is free at the top before it is given back, from which size on memory comes
# straight from the system, and how many pieces may.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_KEEP = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0}
# Where glibc's own rule arrives in a process that has freed a large tensor.
_AS_USUAL = {_MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**26, _MMAP_MAX: 65_536}
_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_")


class _Askers:
    """How many ask for memory to be kept just now, in all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0


_askers = _Askers()


@cache
def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is glibc; others have none of this, and some have no need of it."""
    try:
        library = ctypes.CDLL(None)
        return library if library.mallopt and library.malloc_trim else None
    except (AttributeError, OSError, TypeError):
        return None


def give_back() -> None:
    """A few milliseconds, and the next batch asks for its pages again."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@contextmanager
def kept() -> Iterator[None]:
    """Memory that is freed stays with the process; at the end it is given back.

    A setting of the whole process, while anything in it asks for it. Where the environment has settings of
    glibc's malloc they stay as they are.
    """
    library = None if _decided() else _glibc()
    if library is None:
        yield
        return
    with _askers.lock:
        _askers.count += 1
        if _askers.count == 1:
            _set(library, _KEEP)
    try:
        yield
    finally:
        with _askers.lock:
            _askers.count -= 1
            if _askers.count == 0:
                _set(library, _AS_USUAL)
                library.malloc_trim(0)


def _decided() -> bool:
    """Whether whoever started the process has chosen how its memory is kept."""
    return any(name in os.environ for name in _OWN) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")


def _set(library: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        library.mallopt(option, value)
