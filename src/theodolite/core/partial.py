"""Names for files that are being written: each writer has its own, and what killed writers left is swept up.

Several processes, or threads of one, may write the same file at the same time. A name says who writes:
``guard.safetensors.3fa90c-4711.partial`` is of process 4711 of the machine 3fa90c.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import socket
import threading
import time
from pathlib import Path

_DAY = 24 * 3600
# The first group is absent in names of 0.1.0, which said nothing about the writer.
_NAME = re.compile(r"\.(?:(?P<machine>[0-9a-f]{6})-(?P<process>[0-9]+)(?:-[0-9]+)?\.)?partial")


def partial_beside(path: Path) -> Path:
    """Where this thread writes what shall become ``path``; what killed writers of it left is removed."""
    for other in path.parent.glob(f"{glob.escape(path.name)}.*partial"):
        named = _NAME.fullmatch(other.name.removeprefix(path.name))
        if named is not None and _is_abandoned(other, named["machine"], named["process"]):
            other.unlink(missing_ok=True)
    here = threading.current_thread()
    thread = "" if here is threading.main_thread() else f"-{here.native_id}"
    return path.with_name(f"{path.name}.{_MACHINE}-{os.getpid()}{thread}.partial")


def _is_abandoned(partial: Path, machine: str | None, process: str | None) -> bool:
    """Whether nobody writes it any more: its process has ended, or, elsewhere, it is more than a day old."""
    if machine == _MACHINE and process is not None and os.name == "posix":
        return not _lives(int(process))
    try:
        return time.time() - partial.lstat().st_mtime > _DAY
    except OSError:
        return False


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _machine() -> str:
    """Where a process number is unique: on a machine since it was started, within a container."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    except OSError:  # not Linux: its name has to do
        pass
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=3).hexdigest()


_MACHINE = _machine()
