"""What several scores ask of the same rows, worked once.

A score asks through `once` for work on rows that others may ask for too, and through `kept` for work on what
was fitted. Alone, both are plain calls. Inside a `Pass` the same work on the same numbers is done once.

The same means: the same function, the very same rows, and fitted tensors and modules that agree in every bit,
which is compared when they are first seen. Names never count. PyTorch counts the writes to a tensor, and one
that was written to since is not the same any more. Writes through NumPy or ``.data`` it does not count: who
asks here must not write so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from .alike import Alike, Untold, counted_writes
from .graphs import recording

Worked = TypeVar("Worked")


def once(work: Callable[..., Worked], rows: Tensor, *fitted: Any) -> Worked:
    """``work(rows, *fitted)``, where a pass has not worked it on the same before.

    ``work`` is a function of a module, or a method of an `nn.Module`, that depends on nothing but what it is
    given. ``fitted`` lives as long as the detector it is from. What comes back may be others' too.
    """
    here = _current()
    return work(rows, *fitted) if here is None else here.once(work, rows, fitted)


def kept(work: Callable[..., Worked], *fitted: Any) -> Worked:
    """``work(*fitted)``, of nothing but what was fitted: once for all rows of a pass."""
    here = _current()
    return work(*fitted) if here is None else here.kept(work, fitted)


def kept_like(fitted: Tensor, rows: Tensor) -> Tensor:
    """``fitted`` in the precision and on the device of the rows."""
    return kept(_cast, fitted, rows.dtype, rows.device)


def _cast(fitted: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    return fitted.to(device, dtype)


class _Here(threading.local):
    """The pass that this thread is in."""

    passing: Pass | None = None


_here = _Here()


def _current() -> Pass | None:
    passing = _here.passing
    return None if passing is None or recording() else passing


@dataclass
class _Done:
    """Work that was done: what came out, how long it took without the work asked for inside, and for whom."""

    given: Tensor | None  # held, so that no other tensor takes its place in memory
    value: Any
    writes: tuple[int, ...] = ()
    seconds: float = 0.0
    askers: set[int] = field(default_factory=set)
    inside: list[_Done] = field(default_factory=list)

    def asked_by(self, asker: int) -> None:
        if asker not in self.askers:
            self.askers.add(asker)
            for part in self.inside:
                part.asked_by(asker)

    @property
    def untouched(self) -> bool:
        """Whether nobody wrote to what came out."""
        return self.writes == _writes(self.value)


class Pass:
    """Work that several askers share, and the seconds it took.

    Work on rows is held until `forget`, work on what was fitted as long as the pass. ``seconds`` has the time
    of each asker's own work, ``shared_seconds`` that of the work which more than one of them asked for.
    """

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.shared_seconds = 0.0
        self._alike = Alike()
        self._kept: dict[Hashable, _Done] = {}
        self._of_rows: dict[Hashable, _Done] = {}
        self._unsettled: list[_Done] = []
        self._open: list[_Done] = []
        self._asker = 0

    @contextmanager
    def asking(self, asker: int) -> Iterator[None]:
        """What is worked inside is worked for ``asker``."""
        before, self._asker, _here.passing = _here.passing, asker, self
        own = _Done(None, None, askers={asker})
        try:
            with self._timed(own):
                yield
        finally:
            _here.passing = before

    def once(self, work: Callable[..., Worked], rows: Tensor, fitted: tuple[Any, ...]) -> Worked:
        try:
            of_rows = id(rows), counted_writes(rows)
            key = (self._alike.work(work), of_rows, *map(self._alike.key, fitted))
        except Untold:
            return work(rows, *fitted)
        return self._do(self._of_rows, key, rows, lambda: work(rows, *fitted))

    def kept(self, work: Callable[..., Worked], fitted: tuple[Any, ...]) -> Worked:
        try:
            key = (self._alike.work(work), *map(self._alike.key, fitted))
        except Untold:
            return work(*fitted)
        return self._do(self._kept, key, None, lambda: work(*fitted))

    def forget(self) -> None:
        """Let go of all work on rows, and settle whose time it was."""
        for done in self._unsettled:
            if len(done.askers) > 1:
                self.shared_seconds += done.seconds
            else:
                asker = next(iter(done.askers))
                self.seconds[asker] = self.seconds.get(asker, 0.0) + done.seconds
        self._unsettled.clear()
        self._of_rows.clear()

    def _do(
        self, memory: dict[Hashable, _Done], key: Hashable, given: Tensor | None, work: Callable[[], Worked]
    ) -> Worked:
        done = memory.get(key)
        if done is not None and done.untouched:
            done.asked_by(self._asker)
            if self._open:
                self._open[-1].inside.append(done)
            return cast(Worked, done.value)
        done = _Done(given, None, askers={self._asker})
        if self._open:
            self._open[-1].inside.append(done)
        with self._timed(done):
            value = work()
        with suppress(Untold):
            done.value, done.writes = value, _writes(value)
            memory[key] = done
        return value

    @contextmanager
    def _timed(self, done: _Done) -> Iterator[None]:
        """Time inside belongs to ``done``, less what other work takes in between."""
        start = time.perf_counter()
        self._open.append(done)
        try:
            yield
        finally:
            self._open.pop()
            spent = time.perf_counter() - start
            done.seconds += spent
            if self._open:
                self._open[-1].seconds -= spent
            self._unsettled.append(done)


def _writes(value: object) -> tuple[int, ...]:
    """How often each tensor of a value was written to."""
    if isinstance(value, Tensor):
        return (counted_writes(value),)
    if isinstance(value, tuple):
        return tuple(number for part in value for number in _writes(part))
    raise Untold
