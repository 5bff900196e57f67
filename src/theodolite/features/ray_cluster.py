"""Work on a Ray cluster: tasks in order, and processes that hold a model, as results stream back.

A unit of work whose process dies is done again by another, up to three times; what it gives depends on the
unit alone, so the result is the same. Errors of ours come back as they were raised; at most a few units a
process are on their way at any time, so the driver holds little, however many there are.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any, TypeVar

import torch

from ..core import errors
from ..core.errors import InputError, MissingExtraError, WorkerError
from ..reference.pairs import merged_in_pairs
from .engine import RayEngine
from .ray_told import Driver, Refused, Told, done

Unit = TypeVar("Unit")
Result = TypeVar("Result")

# How often a unit is tried again after the process that had it died.
RETRIES = 3
# Units a process has: the one it works on and the next.
_AHEAD = 2
# A Ray of this machine, for one run.
_LOCAL = "local"
# Ray reads these when it is imported or started: it shall not report to its makers, and what it runs shall be
# as urgent as if this process ran it.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_worker_niceness": "0",
}


def import_ray() -> Any:
    """The module ray; where it is not installed, the error says what to install."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error


def connected() -> bool:
    """Whether this process is connected to a Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


@contextmanager
def cluster(engine: RayEngine) -> Iterator[Any]:
    """The module ray, connected: to the cluster of the engine, or as it is connected already.

    A Ray that is started here ends with the context, as does a connection that is made here.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, engine.address or os.environ.get("RAY_ADDRESS") or _LOCAL)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    own = {"include_dashboard": False} if address == _LOCAL else {}
    with warnings.catch_warnings(), _on_loopback() if address == _LOCAL else nullcontext():
        warnings.simplefilter("ignore")  # of Ray's own ways, about which a user can do nothing
        try:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"Ray cannot be reached at {address} ({reason}): start it there, or name another address"
            ) from error


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Within, a Ray that is started listens to this machine alone, as it does on systems without clusters."""
    constants = importlib.import_module("ray._private.ray_constants")
    usual = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    if usual is not None:
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if usual is not None:
            constants.ENABLE_RAY_CLUSTER = usual  # type: ignore[attr-defined]


def processes(ray: Any, engine: RayEngine) -> int:
    """How many models run at once; refused where a Ray of this machine has no room for one."""
    there = ray.cluster_resources()
    asked = {"CPU": engine.cpus, "GPU": engine.gpus}
    room = [int(there.get(name, 0) // share) for name, share in asked.items() if share]
    if min(room) < 1 and engine.address is None:
        has = ", ".join(f"{there.get(name, 0):g} {name}s" for name in asked)
        raise InputError(
            f"no process can have {engine.cpus:g} CPUs and {engine.gpus:g} GPUs here: Ray has {has}. Ask for "
            f"less, or name the address of a cluster that has more"
        )
    return engine.concurrency or max(1, min(room))


class _Process:
    """In a worker: holds what ``make`` made, which is slow to make, for unit after unit."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._work: Callable[[Any], Any] | None = None

    def run(self, make: list[Any], unit: object, driver: Driver) -> object:
        return done(lambda one: self._made(make)(one), unit, driver)

    def _made(self, make: list[Any]) -> Callable[[Any], Any]:
        if self._work is None:
            self._work = import_ray().get(make[0])()
        return self._work


def over_processes(
    ray: Any,
    engine: RayEngine,
    make: Callable[[], Callable[[Unit], Result]],
    units: Iterable[Unit],
    *,
    count: int,
) -> Generator[Result, None, None]:
    """``make()(unit)`` of every unit, as they get done: made once in each of ``count`` processes."""
    kind = ray.remote(num_cpus=engine.cpus, num_gpus=engine.gpus, max_restarts=-1, max_task_retries=RETRIES)(
        _Process
    )
    waiting, busy, driver = iter(units), {}, Driver.here()
    shipped = _sent(ray, make)
    started = []
    try:
        for _ in range(count):
            given = list(islice(waiting, _AHEAD))
            if not given:
                break
            started.append(kind.remote(engine.threads))
            for unit in given:
                # In a list, or Ray would fetch it with every unit.
                busy[started[-1].run.remote([shipped], unit, driver)] = started[-1]
        while busy:
            (ready, *_), _ = ray.wait(list(busy), num_returns=1)
            free = busy.pop(ready)
            for unit in islice(waiting, 1):
                busy[free.run.remote([shipped], unit, driver)] = free
            yield _received(ray, ready)
    finally:
        for process in started:
            ray.kill(process)


def over_tasks(
    ray: Any, work: Callable[[Unit], Result], units: Iterable[Unit]
) -> Generator[Result, None, None]:
    """``work(unit)`` of every unit, in order; a few more than there are cores are on their way."""
    started = (task_for(ray, work, unit) for unit in units)
    waiting: deque[Any] = deque()
    ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    for task in started:
        waiting.append(task)
        if len(waiting) > ahead:
            yield _received(ray, waiting.popleft())
    while waiting:
        yield _received(ray, waiting.popleft())


def task_for(ray: Any, work: Callable[[Unit], Result], unit: Unit) -> Any:
    """A task on its way, on one core."""
    return ray.remote(num_cpus=1, max_retries=RETRIES)(done).remote(work, unit, Driver.here())


class _Ref:
    """What a task is to give; adding two is a task, too."""

    def __init__(self, ray: Any, task: Any) -> None:
        self.ray, self.task = ray, task

    def __add__(self, other: _Ref) -> _Ref:
        add = self.ray.remote(num_cpus=0, max_retries=RETRIES)(_sum)
        return _Ref(self.ray, add.remote(self.task, other.task))


def merged_by_tasks(ray: Any, tasks: Iterable[Any]) -> Any:
    """The sum of what tasks give, added in pairs by tasks: the driver sees references, and the last sum."""
    return _received(ray, merged_in_pairs((_Ref(ray, task) for task in tasks), "the data").task)


def _sum(one: Told[Any] | Refused, other: Told[Any] | Refused) -> object:
    """In a worker: both as one; the first of two errors."""
    if isinstance(one, Refused):
        return one
    if isinstance(other, Refused):
        return other
    added = done(lambda _: one.result + other.result, None)
    if isinstance(added, Refused):
        return added
    warned = dict.fromkeys((*one.warned, *other.warned, *added.warned))
    return Told(added.result, tuple(warned))


def _sent(ray: Any, thing: object) -> Any:
    """A thing in Ray's store, for whoever needs it."""
    try:
        return ray.put(thing)
    except Exception as error:  # of pickle, of the classes that it meets, of a full store
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the model or the data cannot be sent to other processes ({type(error).__name__}: {reason}). "
            f"Remedy: a model whose classes are in a module that the workers can import; or the local engine"
        ) from error


def _received(ray: Any, task: Any) -> Any:
    """What a task gave; errors as they were raised, and warnings said again."""
    try:
        found = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        lines = [text for text in str(error).splitlines() if text.strip()]
        raise WorkerError(f"a worker of Ray failed: {lines[-1][:300]}") from error
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise WorkerError(
            f"a worker of Ray died, also when it was tried again ({type(error).__name__}: {reason}): most "
            f"often the memory ran out. Remedy: a smaller --batch-size, or fewer models at once; what was "
            f"written before is kept"
        ) from error
    if isinstance(found, Refused):
        raise found.raised()
    for message in found.warned:
        warnings.warn(message, errors.TheodoliteWarning, stacklevel=3)
    return found.result
