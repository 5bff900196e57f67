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
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from .. import _version
from ..core import errors
from ..core.errors import InputError, MissingExtraError, TheodoliteError, UnreadableImageError, WorkerError
from .engine import RayEngine

Unit = TypeVar("Unit")
Result = TypeVar("Result")

# How often a unit is tried again after the process that had it died.
RETRIES = 3
# Units a process has: the one it works on and the next.
_AHEAD = 2
# A Ray of this machine, for one run.
_LOCAL = "local"
# Ray reads these when it is imported: it shall not report to its makers.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}


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


@dataclass(frozen=True)
class _Refused:
    """An error of ours on its way back: as data, which needs no code to be read."""

    kind: str
    message: str
    path: str | None

    @classmethod
    def of(cls, error: TheodoliteError) -> _Refused:
        known = next(kind for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        return cls(known.__name__, str(error), getattr(error, "path", None))

    def raised(self) -> TheodoliteError:
        kind = getattr(errors, self.kind)
        error: TheodoliteError = kind.__new__(kind, self.message)
        error.args = (self.message,)
        if isinstance(error, UnreadableImageError):
            error.path = self.path
        return error


@dataclass(frozen=True)
class _Told(Generic[Result]):
    """What a unit gave, and what was warned of meanwhile."""

    result: Result
    warned: tuple[str, ...]


@dataclass(frozen=True)
class _Driver:
    """Who sends work: its version of theodolite, and the folder that relative paths start from."""

    version: str
    folder: str

    @classmethod
    def here(cls) -> _Driver:
        return cls(_version.__version__, str(Path.cwd()))

    def joined(self) -> None:
        """In a worker: the same version is required, and the same folder taken where it is there."""
        if self.version != _version.__version__:
            raise InputError(
                f"a worker has theodolite {_version.__version__}, the driver {self.version}: install the "
                f"same version on all machines"
            )
        if str(Path.cwd()) != self.folder and Path(self.folder).is_dir():
            os.chdir(self.folder)


def _done(work: Callable[[Unit], Result], unit: Unit, driver: _Driver) -> _Told[Result] | _Refused:
    """In a worker: the work, or the error of ours that it ended with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", errors.TheodoliteWarning)
        try:
            driver.joined()
            result = work(unit)
        except TheodoliteError as error:
            return _Refused.of(error)
    return _Told(result, tuple(str(warning.message) for warning in caught))


class _Process:
    """In a worker: holds what ``make`` made, which is slow to make, for unit after unit."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._work: Callable[[Any], Any] | None = None

    def run(self, make: list[Any], unit: object, driver: _Driver) -> object:
        return _done(lambda one: self._made(make)(one), unit, driver)

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
    waiting, busy, driver = iter(units), {}, _Driver.here()
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
    return ray.remote(num_cpus=1, max_retries=RETRIES)(_done).remote(work, unit, _Driver.here())


def merged(ray: Any, tasks: list[Any]) -> Any:
    """The sum of what tasks give, added in pairs by tasks: the driver sees the last one alone."""
    add = ray.remote(num_cpus=1, max_retries=RETRIES)(_sum)
    while len(tasks) > 1:
        tasks = [
            add.remote(*tasks[place : place + 2]) if place + 1 < len(tasks) else tasks[place]
            for place in range(0, len(tasks), 2)
        ]
    return _received(ray, tasks[0])


def _sum(one: _Told[Any] | _Refused, other: _Told[Any] | _Refused) -> object:
    """In a worker: both as one; the first of two errors."""
    if isinstance(one, _Refused):
        return one
    if isinstance(other, _Refused):
        return other
    added = _done(lambda _: one.result + other.result, None, _Driver.here())
    if isinstance(added, _Refused):
        return added
    warned = dict.fromkeys((*one.warned, *other.warned, *added.warned))
    return _Told(added.result, tuple(warned))


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
    if isinstance(found, _Refused):
        raise found.raised()
    for message in found.warned:
        warnings.warn(message, errors.TheodoliteWarning, stacklevel=3)
    return found.result
