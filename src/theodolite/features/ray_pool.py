"""Processes on a Ray cluster that hold a model: each gets work once it has found room, and no sooner.

A unit whose process dies is done again by another, up to three times. So no unit waits for a process that the
cluster has no room for, or that went with its machine. Where none finds room, a warning says what was asked
for, and it ends where no machine could ever have it.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

import torch

from ..core.errors import InputError, TheodoliteWarning, WorkerError
from .engine import RayEngine
from .ray_cluster import RETRIES, died, import_ray, received, sent
from .ray_told import Driver, done

Unit = TypeVar("Unit")
Result = TypeVar("Result")

# Units a process has: the one it works on and the next.
_AHEAD = 2
# Seconds until it is said that no process is there, and until it ends where no machine could ever have one:
# by then a cluster that grows has grown.
_PATIENCE, _GROWING = 60.0, 600.0


def processes(ray: Any, engine: RayEngine) -> int:
    """How many models run at once; refused where a Ray of this machine has no room for one."""
    room = _room(ray, engine)
    if room < 1 and engine.address is None:
        raise InputError(
            f"no process can have {_asked(engine)} here: Ray has {_said(ray.cluster_resources())}. Ask for "
            f"less, or name the address of a cluster that has more"
        )
    return engine.concurrency or max(1, room)


def _room(ray: Any, engine: RayEngine) -> int:
    """Processes that the machines of the cluster hold if they do nothing else."""
    asked = {"CPU": engine.cpus, "GPU": engine.gpus}
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(
        min(int(machine.get(name, 0) // share) for name, share in asked.items() if share)
        for machine in machines
    )


def _asked(engine: RayEngine) -> str:
    return _said({"CPU": engine.cpus, "GPU": engine.gpus})


def _said(resources: dict[str, float]) -> str:
    return " and ".join(f"{resources.get(name, 0):g} {name}s" for name in ("CPU", "GPU"))


class _Process:
    """In a worker: holds what ``make`` made, which is slow to make, for unit after unit."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._work: Callable[[Any], Any] | None = None

    def ready(self) -> None:
        """Answered as soon as the process is there."""

    def run(self, make: list[Any], unit: object, driver: Driver) -> object:
        return done(lambda one: self._made(make)(one), unit, driver)

    def _made(self, make: list[Any]) -> Callable[[Any], Any]:
        if self._work is None:
            self._work = import_ray().get(make[0])()
        return self._work


@dataclass
class _Held(Generic[Unit]):
    """A unit, and how often a process died with it."""

    unit: Unit
    deaths: int = 0


@dataclass
class _Hired(Generic[Unit]):
    """A process, and the tasks that it was given, in the order that it does them."""

    actor: Any
    given: dict[Any, _Held[Unit]] = field(default_factory=dict)


class _Pool(Generic[Unit]):
    """Processes that are on their way, those that are there, and the units that none of them has."""

    def __init__(self, ray: Any, engine: RayEngine, make: object, units: Iterator[Unit], count: int) -> None:
        self.ray, self.engine = ray, engine
        resources = {"num_cpus": engine.cpus, "num_gpus": engine.gpus}
        self._kind = ray.remote(**resources, max_restarts=0, max_task_retries=0)(_Process)
        # In a list, or Ray would fetch it with every unit.
        self._make, self._driver = [sent(ray, make)], Driver.here()
        self._units = units
        self._back = deque(_Held(unit) for unit in islice(units, count * _AHEAD))
        self._coming: dict[Any, _Hired[Unit]] = {}
        self._there: list[_Hired[Unit]] = []
        self._stillborn = 0
        for _ in range(-(-len(self._back) // _AHEAD)):
            self._hire()

    def results(self) -> Generator[Any, None, None]:
        """What the units give, as they get done."""
        while self._back or any(hired.given for hired in self._there):
            task = self._next_answer()
            if task in self._coming:
                self._welcome(task)
                continue
            hired = next(one for one in self._there if task in one.given)
            try:
                result = received(self.ray, task)
            except WorkerError as error:
                self._mourn(hired, error)
                continue
            del hired.given[task]
            self._give(hired)
            yield result

    def end(self) -> None:
        for hired in (*self._coming.values(), *self._there):
            self.ray.kill(hired.actor)

    def _hire(self) -> None:
        actor = self._kind.remote(self.engine.threads)
        self._coming[actor.ready.remote()] = _Hired(actor)

    def _welcome(self, task: Any) -> None:
        """A process has answered, or died before it could."""
        hired = self._coming.pop(task)
        try:
            self.ray.get(task)
        except Exception as error:
            self._stillborn += 1
            if not died(self.ray, error) or self._stillborn > RETRIES:
                received(self.ray, task)  # as an error of ours
            self._hire()
            return
        self._stillborn = 0
        self._there.append(hired)
        self._give(hired)

    def _give(self, hired: _Hired[Unit]) -> None:
        """As many units as a process has at a time: those that came back first."""
        while len(hired.given) < _AHEAD:
            held = self._back.popleft() if self._back else next(map(_Held, self._units), None)
            if held is None:
                return
            hired.given[hired.actor.run.remote(self._make, held.unit, self._driver)] = held

    def _mourn(self, hired: _Hired[Unit], error: WorkerError) -> None:
        """The units of a process that died go to others; an error of its work, or too many deaths, is one."""
        if not died(self.ray, error.__cause__):
            raise error
        first, *_ = held = [*hired.given.values()]
        first.deaths += 1
        if first.deaths > RETRIES:
            raise error
        self.ray.kill(hired.actor)
        self._there.remove(hired)
        self._back.extendleft(reversed(held))
        self._hire()
        for other in self._there:
            self._give(other)

    def _next_answer(self) -> Any:
        """The next task that is done; while no process is there, it is said why it takes so long."""
        tasks = [*self._coming, *(task for hired in self._there for task in hired.given)]
        began, said = time.monotonic(), False
        while True:
            ready, _ = self.ray.wait(tasks, num_returns=1, timeout=_PATIENCE)
            if ready:
                return ready[0]
            if self._there:
                continue
            waited = time.monotonic() - began
            if waited > _GROWING and not _room(self.ray, self.engine):
                raise InputError(f"{self._why(waited)}: no machine of it could ever have that")
            if not said:
                remedy = "If others hold the rest, it goes on when they are done; or ask for less"
                warnings.warn(
                    f"{self._why(waited)}. {remedy} (--cpus, --gpus)", TheodoliteWarning, stacklevel=3
                )
                said = True

    def _why(self, waited: float) -> str:
        whole, free = self.ray.cluster_resources(), self.ray.available_resources()
        return (
            f"no process on the Ray cluster has answered for {waited:.0f} s: each asks for "
            f"{_asked(self.engine)}, and of {_said(whole)} the cluster has {_said(free)} free"
        )


def over_processes(
    ray: Any,
    engine: RayEngine,
    make: Callable[[], Callable[[Unit], Result]],
    units: Iterable[Unit],
    *,
    count: int,
) -> Generator[Result, None, None]:
    """``make()(unit)`` of every unit, as they get done: made once in each of at most ``count`` processes."""
    pool = _Pool(ray, engine, make, iter(units), count)
    try:
        yield from pool.results()
    finally:
        pool.end()
