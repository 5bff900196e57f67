"""Processes of Ray get work when they are there: on a Ray that is played, whose processes come, stay away or
die as a test says."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from theodolite.core.errors import InputError, TheodoliteWarning, WorkerError
from theodolite.features import ray_pool
from theodolite.features.engine import RayEngine
from theodolite.features.ray_pool import over_processes, processes
from theodolite.features.ray_told import Told


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class PlayedRay:
    """What the pool asks of the module ray. ``placed`` says of the n-th process whether it finds room,
    ``fate`` what becomes of a unit in it: a result, or an error."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, placed: Callable[[int], bool], fate: Callable[[int, Any], object]) -> None:
        self.placed, self.fate = placed, fate
        self.started, self.killed = 0, 0
        self.machines: list[dict[str, float]] = [{"CPU": 2.0}]
        self.answers: dict[int, object] = {}
        self.asked: list[int] = []

    def remote(self, **_: object) -> Callable[[type], Any]:
        return lambda _kind: SimpleNamespace(remote=self._actor)

    def _actor(self, _threads: int) -> Any:
        number, self.started = self.started, self.started + 1

        def ready() -> int:
            return self._task(None if self.placed(number) else ...)

        def run(_make: object, unit: object, _driver: object) -> int:
            return self._task(self.fate(number, unit))

        return SimpleNamespace(ready=SimpleNamespace(remote=ready), run=SimpleNamespace(remote=run))

    def _task(self, answer: object) -> int:
        number = len(self.asked)
        self.asked.append(number)
        if answer is not ...:
            self.answers[number] = answer
        return number

    def put(self, thing: object) -> object:
        return thing

    def wait(self, tasks: list[int], **_: object) -> tuple[list[int], list[int]]:
        return [task for task in tasks if task in self.answers][:1], []

    def get(self, task: int) -> object:
        answer = self.answers[task]
        if isinstance(answer, Exception):
            raise answer
        return Told(answer, ())

    def kill(self, _actor: object) -> None:
        self.killed += 1

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": machine} for machine in self.machines]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": sum(machine.get("CPU", 0) for machine in self.machines)}

    available_resources = cluster_resources


def made() -> Callable[[int], int]:
    return lambda unit: unit


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour goes by whenever the clock is read."""
    clock = iter(range(0, 10**9, 3600))
    monkeypatch.setattr(ray_pool, "time", SimpleNamespace(monotonic=lambda: next(clock)))


def test_no_unit_waits_for_a_process_that_finds_no_room() -> None:
    ray = PlayedRay(lambda number: number == 1, lambda _number, unit: unit)
    found = over_processes(ray, RayEngine(concurrency=3), made, iter(range(20)), count=3)
    assert sorted(found) == [*range(20)]
    assert (ray.started, ray.killed) == (3, 3)


def test_units_of_a_process_that_died_are_done_by_others() -> None:
    ray = PlayedRay(lambda _: True, lambda number, unit: RayError("died") if number == 0 else unit)
    assert sorted(over_processes(ray, RayEngine(), made, iter(range(9)), count=2)) == [*range(9)]
    assert ray.started == 3, "another took its place"


def test_a_unit_that_no_process_survives_ends_the_run() -> None:
    ray = PlayedRay(lambda _: True, lambda _number, unit: RayError("died") if unit == 4 else unit)
    found = over_processes(ray, RayEngine(), made, iter(range(9)), count=2)
    with pytest.raises(WorkerError, match="also when it was tried again"):
        list(found)
    assert ray.started == 2 + 3, "tried again three times"
    assert ray.killed == ray.started


def test_an_error_of_the_work_is_not_tried_again() -> None:
    ray = PlayedRay(lambda _: True, lambda _number, _unit: RayTaskError("ValueError: no"))
    with pytest.raises(WorkerError, match="ValueError: no"):
        list(over_processes(ray, RayEngine(), made, iter(range(9)), count=1))
    assert ray.started == 1


@pytest.mark.usefixtures("hurried")
def test_where_no_process_finds_room_it_is_said_and_ends_if_none_ever_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = PlayedRay(lambda _: False, lambda _number, unit: unit)
    engine = RayEngine("auto", gpus=1)
    ray.machines = [{"CPU": 2.0}, {"CPU": 8.0, "GPU": 0.0}]
    assert processes(ray, engine) == 1, "a cluster may grow"
    with pytest.raises(InputError, match=r"1 CPUs and 1 GPUs, and of 10 CPUs and 0 GPUs .* could ever have"):
        list(over_processes(ray, engine, made, iter(range(9)), count=1))
    ray.machines = [{"CPU": 2.0, "GPU": 1.0}]
    waits = iter(range(3))

    def wait(*_: object, **__: object) -> tuple[list[int], list[int]]:
        if next(waits, None) is None:
            raise KeyboardInterrupt
        return [], []

    monkeypatch.setattr(ray, "wait", wait)
    with (
        pytest.warns(TheodoliteWarning, match=r"no process .* has answered") as said,
        pytest.raises(KeyboardInterrupt),
    ):
        list(over_processes(ray, engine, made, iter(range(9)), count=1))
    assert len(said) == 1, "once, and it waits on"
    assert ray.killed == ray.started == 2


def test_room_is_that_of_machines_not_of_their_sum() -> None:
    """Two machines with half of what a process needs have room for none."""
    ray = PlayedRay(lambda _: True, lambda _number, unit: unit)
    ray.machines = [{"CPU": 4.0, "GPU": 1.0}, {"CPU": 9.0}, {"CPU": 2.0, "GPU": 8.0}]
    assert processes(ray, RayEngine(cpus=2)) == 2 + 4 + 1
    assert processes(ray, RayEngine(cpus=2, gpus=0.5)) == 2 + 0 + 1
    with pytest.raises(InputError, match="no process can have 10 CPUs and 0 GPUs here"):
        processes(ray, RayEngine(cpus=10))
