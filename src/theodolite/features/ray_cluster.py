"""Work on a Ray cluster: tasks in order, as results stream back.

A unit of work whose process dies is done again by another, up to three times; what it gives depends on the
unit alone, so the result is the same. Errors of ours come back as they were raised; at most a few units a
core are on their way at any time, so the driver holds little, however many there are.
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
from typing import Any, TypeVar

from ..core import errors
from ..core.errors import InputError, MissingExtraError, WorkerError
from ..reference.pairs import merged_in_pairs
from .engine import RayEngine
from .ray_told import Driver, Folders, Refused, Told, done

Unit = TypeVar("Unit")
Result = TypeVar("Result")

# How often a unit is tried again after the process that had it died.
RETRIES = 3
# Tasks a core has: the one it works on and the next.
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
            yield received(ray, waiting.popleft())
    while waiting:
        yield received(ray, waiting.popleft())


def task_for(ray: Any, work: Callable[[Unit], Result], unit: Unit) -> Any:
    """A task on its way, on one core."""
    return ray.remote(num_cpus=1, max_retries=RETRIES)(done).remote(work, unit, Driver.here())


class _Ref:
    """What a task is to give; adding two is a task, too."""

    def __init__(self, ray: Any, task: Any) -> None:
        self.ray, self.task = ray, task

    def __add__(self, other: _Ref) -> _Ref:
        add = self.ray.remote(num_cpus=0, max_retries=RETRIES)(_sum)
        return _Ref(self.ray, add.remote(Folders.here(), self.task, other.task))


def merged_by_tasks(ray: Any, tasks: Iterable[Any]) -> Any:
    """The sum of what tasks give, added in pairs by tasks: the driver sees references, and the last sum."""
    return received(ray, merged_in_pairs((_Ref(ray, task) for task in tasks), "the data").task)


def _sum(_: Folders, one: Told[Any] | Refused, other: Told[Any] | Refused) -> object:
    """In a worker: both as one; the first of two errors. What is read first is where modules are."""
    if isinstance(one, Refused):
        return one
    if isinstance(other, Refused):
        return other
    added = done(lambda _: one.result + other.result, None)
    if isinstance(added, Refused):
        return added
    warned = dict.fromkeys((*one.warned, *other.warned, *added.warned))
    return Told(added.result, tuple(warned))


def sent(ray: Any, thing: object) -> Any:
    """A thing in Ray's store, for whoever needs it."""
    try:
        return ray.put(thing)
    except Exception as error:  # of pickle, of the classes that it meets, of a full store
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the model or the data cannot be sent to other processes ({type(error).__name__}: {reason}). "
            f"Remedy: a model whose classes are in a module that the workers can import; or the local engine"
        ) from error


def died(ray: Any, error: BaseException | None) -> bool:
    """Whether an error of Ray says that a process died, and not that what it ran failed."""
    kinds = ray.exceptions
    return isinstance(error, kinds.RayError) and not isinstance(error, kinds.RayTaskError)


def received(ray: Any, task: Any) -> Any:
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
