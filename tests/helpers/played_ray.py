"""A Ray that is played in this process: whatever travels is pickled and read again, as by Ray.

It shows that an engine gives what one machine gives without starting processes; that processes die, and what
Ray itself does, is for tests on a Ray.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


@dataclass(frozen=True)
class Ref:
    """What a task gave, or what was put, by its number."""

    number: int


class PlayedRay:
    """What theodolite asks of the module ray, with so many CPUs; ``tasks`` counts what was run."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, cpus: float = 2.0) -> None:
        self.cpus = cpus
        self.tasks = 0
        self._things: list[bytes] = []

    def is_initialized(self) -> bool:
        return True

    def remote(self, **_: object) -> Callable[[Any], Any]:
        return lambda thing: SimpleNamespace(remote=lambda *given: self._ran(thing, given))

    def _ran(self, thing: Any, given: tuple[object, ...]) -> Any:
        if isinstance(thing, type):
            return _Actor(self, thing(*self.sent(given)))
        self.tasks += 1
        return self.put(thing(*self.sent(given)))

    def sent(self, given: tuple[object, ...]) -> list[Any]:
        """Arguments as a worker gets them: references are fetched, unless they lie within something."""
        return [self.get(one) if isinstance(one, Ref) else _travelled(one) for one in given]

    def put(self, thing: object) -> Ref:
        self._things.append(pickle.dumps(thing))
        return Ref(len(self._things) - 1)

    def get(self, ref: Ref) -> Any:
        return pickle.loads(self._things[ref.number])

    def wait(self, refs: list[Ref], **_: object) -> tuple[list[Ref], list[Ref]]:
        return refs[:1], refs[1:]

    def kill(self, actor: object) -> None:
        pass

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": self.cluster_resources()}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cpus}

    available_resources = cluster_resources


class _Actor:
    def __init__(self, ray: PlayedRay, made: Any) -> None:
        self._ray, self._made = ray, made

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._made, name)
        return SimpleNamespace(remote=lambda *given: self._ray.put(call(*self._ray.sent(given))))


def _travelled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture
def played_ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    """It stands for the module ray."""
    ray = PlayedRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray
