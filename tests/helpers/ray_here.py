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
def one_at_a_time() -> Iterator[None]:
    """Processes that run tests on Ray beside each other take turns."""
    place = Path(tempfile.gettempdir()) / f"theodolite-tests-ray-{os.getuid()}.lock"
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def one_ray() -> Iterator[Any]:
    """A Ray with two CPUs."""
    with one_at_a_time(), cluster(RayEngine()) as ray:
        assert ray.cluster_resources()["CPU"] >= CPUS, "the tests need two cores"
        yield ray


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """What hangs longer than that fails."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def processes_that_say(text: str) -> list[str]:
    """The command lines with such a text, of whatever process of this machine."""
    said = (_said(place) for place in Path("/proc").iterdir() if place.name.isdecimal())
    return [line for line in said if text in line]


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
