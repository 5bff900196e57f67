"""A Ray of this machine for tests: one at a time, whoever runs them, and workers of it that are killed."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from theodolite.features.engine import RayEngine
from theodolite.features.ray_cluster import cluster

CPUS = 2


@contextmanager
def one_ray() -> Iterator[Any]:
    """A Ray with two CPUs; processes that run tests beside each other take turns."""
    place = Path(tempfile.gettempdir()) / f"theodolite-tests-ray-{os.getuid()}.lock"
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with cluster(RayEngine()) as ray:
            assert ray.cluster_resources()["CPU"] >= CPUS, "the tests need two cores"
            yield ray


def dying_once(work: Callable[..., Any], marker: Path) -> Callable[..., Any]:
    """The work, but the first process that is given some is killed; ``marker`` is there afterwards."""

    def dies(*given: Any) -> Any:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*given)

    return dies


def workers_of(name: str) -> list[int]:
    """Processes of Ray's workers, started by this process, that are busy with what is called so."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal() and name in _said(place) and os.getpid() in _ancestors(int(place.name)):
            found.append(int(place.name))
    return found


@contextmanager
def killing_one(name: str) -> Iterator[Callable[[], int]]:
    """Within, one worker that is busy with what is called so is killed as soon as it is seen; the number
    of those killed is known at the end."""
    killed: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set() and not killed:
            for process in workers_of(name)[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: len(killed)
    finally:
        ended.set()
        thread.join()


def _said(place: Path) -> str:
    try:
        return (place / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _ancestors(process: int) -> list[int]:
    found = []
    while process > 1:
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        process = int(stat.rpartition(")")[2].split()[1])
        found.append(process)
    return found
