"""Extra resident memory of a piece of work, from the kernel's own count of the peak."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path


def resident(field: str) -> float:
    """A line of /proc/self/status in MiB: VmRSS is the memory now, VmHWM its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def extra_mebibytes(work: Callable[[], object]) -> float:
    """How far the resident memory rises above its present size while ``work`` runs."""
    ctypes.CDLL(None).malloc_trim(0)  # memory given back earlier must not hide what the work takes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before
