"""Many requests, one forward pass: what waits is judged together, by one thread, in the order it came.

While a batch is judged the next one gathers by itself. When the thread is free a batch waits, for a moment,
only for pictures that are known to be on their way: a request that is alone is judged at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ..core.memory import give_back
from .bounds import Bounds
from .judging import Judged
from .metrics import Metrics
from .refusal import Refusal

Judge: TypeAlias = Callable[[Tensor, bool], list[Judged]]
Kind: TypeAlias = tuple[torch.dtype, tuple[int, ...], bool]
Outcome: TypeAlias = list[Judged] | Refusal
_logger = logging.getLogger("theodolite.serve")
# Free memory is given back after so many batches, and when nothing has come for so many seconds.
_TIDIED_EVERY = 32
_IDLE = 1.0


@dataclass(frozen=True, eq=False)
class _Job:
    """Rows that belong together, and whom they are to be told to."""

    inputs: Tensor
    explain: bool
    answer: asyncio.Future[list[Judged]]

    @property
    def kind(self) -> Kind:
        """Rows of one kind can be judged together."""
        return self.inputs.dtype, tuple(self.inputs.shape[1:]), self.explain


class Room:
    """The jobs of one request that are still on their way; those that will not come are not waited for."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self.expected = 0

    def expect(self, jobs: int) -> None:
        self.expected += jobs
        self._batcher.expect(jobs)


class Batcher:
    """Gathers jobs and has them judged by ``judge``, in the only thread of ``thread``."""

    def __init__(self, judge: Judge, thread: ThreadPoolExecutor, bounds: Bounds, metrics: Metrics) -> None:
        self._judge = judge
        self._thread = thread
        self._bounds = bounds
        self._metrics = metrics
        self._waiting: deque[_Job] = deque()
        self._admitted = 0
        self._untidied = 0
        self._on_their_way = 0
        self._changed = asyncio.Event()

    @contextmanager
    def room(self, jobs: int) -> Iterator[Room]:
        """Room for so many jobs, which are then expected; refused when the queue is full."""
        if self._admitted + jobs > self._bounds.queue:
            raise Refusal(
                503, f"{self._admitted} of at most {self._bounds.queue} samples are waiting: try again later"
            )
        self._count(jobs)
        room = Room(self)
        room.expect(jobs)
        try:
            yield room
        finally:
            room.expect(-room.expected)
            self._count(-jobs)

    async def judged(self, room: Room, inputs: Tensor, *, explain: bool) -> list[Judged]:
        """The rows of ``inputs``, one of the jobs that there is room for, judged together with others'."""
        job = _Job(inputs, explain, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        room.expect(-1)
        return await job.answer

    def expect(self, jobs: int) -> None:
        """So many more jobs, or fewer, are on their way."""
        self._on_their_way += jobs
        self._changed.set()

    async def run(self) -> None:
        """Judge batch after batch until cancelled."""
        while True:
            batch = await self._gathered()
            started = time.perf_counter()
            loop = asyncio.get_running_loop()
            outcomes = await loop.run_in_executor(self._thread, self._outcomes, batch)
            self._metrics.batch(_rows(batch), time.perf_counter() - started)
            for job, outcome in zip(batch, outcomes, strict=True):
                if job.answer.done():  # whoever asked has left or given up
                    continue
                if isinstance(outcome, Refusal):
                    job.answer.set_exception(outcome)
                else:
                    job.answer.set_result(outcome)
            self._untidied += 1
            if self._untidied >= _TIDIED_EVERY:
                await self._tidy()

    async def _tidy(self) -> None:
        self._untidied = 0
        await asyncio.get_running_loop().run_in_executor(self._thread, give_back)

    def _count(self, jobs: int) -> None:
        self._admitted += jobs
        self._metrics.waiting(self._admitted)

    async def _gathered(self) -> list[_Job]:
        """The next batch: jobs of the kind of the oldest, at least one, at most as many rows as allowed."""
        while True:
            while not (batch := self._next()):
                if not await self._until_changed(_IDLE if self._untidied else None):
                    await self._tidy()
            limit = time.monotonic() + self._bounds.batch_seconds
            while batch and _rows(batch) < self._bounds.batch and self._on_their_way > 0:
                left = limit - time.monotonic()
                if left <= 0 or not await self._until_changed(left):
                    break
                batch = self._next()
            batch = self._next()  # without those who left meanwhile
            if batch:
                taken = set(map(id, batch))
                self._waiting = deque(job for job in self._waiting if id(job) not in taken)
                return batch

    def _next(self) -> list[_Job]:
        """What would be judged now. Jobs that nobody waits for any more are forgotten."""
        self._waiting = deque(job for job in self._waiting if not job.answer.done())
        batch: list[_Job] = []
        rows = 0
        for job in self._waiting:
            fits = rows + len(job.inputs) <= self._bounds.batch and job.kind == self._waiting[0].kind
            if fits or not batch:
                batch.append(job)
                rows += len(job.inputs)
        return batch

    async def _until_changed(self, seconds: float | None) -> bool:
        """Whether something changed before the time was over."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _outcomes(self, batch: Sequence[_Job]) -> list[Outcome]:
        """In the thread. A batch that fails is tried again one by one: one job breaks no other."""
        rows = self._attempt(batch)
        if isinstance(rows, Refusal):
            return [rows] if len(batch) == 1 else [self._attempt([job]) for job in batch]
        outcomes: list[Outcome] = []
        start = 0
        for job in batch:
            outcomes.append(rows[start : start + len(job.inputs)])
            start += len(job.inputs)
        return outcomes

    def _attempt(self, batch: Sequence[_Job]) -> Outcome:
        try:
            rows = self._judge(torch.cat([job.inputs for job in batch]), batch[0].explain)
        except Exception:
            _logger.exception("a batch of %d could not be judged", _rows(batch))
            return Refusal(500, "the guard failed on this input; the service's log says why")
        if len(rows) != _rows(batch):
            _logger.error("%d rows in, %d verdicts out", _rows(batch), len(rows))
            return Refusal(500, "the guard gave another number of verdicts than there were samples")
        return rows


def _rows(batch: Sequence[_Job]) -> int:
    return sum(len(job.inputs) for job in batch)
