"""The batcher by itself: what is judged together, what waits, what is forgotten."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch
from torch import Tensor

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from theodolite.serve.batching import Batcher
from theodolite.serve.bounds import Bounds
from theodolite.serve.judging import Judged
from theodolite.serve.metrics import Metrics
from theodolite.serve.refusal import Refusal


class Echo:
    """Says of every row what its first number is; waits until it may, and notes what came together."""

    def __init__(self) -> None:
        self.batches: list[list[float]] = []
        self.may = threading.Event()
        self.may.set()

    def __call__(self, inputs: Tensor, explain: bool) -> list[Judged]:
        assert self.may.wait(10)
        rows = inputs.reshape(len(inputs), -1)[:, 0].tolist()
        self.batches.append(rows)
        if 13 in rows:
            raise ValueError("the number 13")
        return [Judged(int(explain), row, 0.5) for row in rows]


def run(work: Callable[[Batcher, Echo], Awaitable[None]], bounds: Bounds | None = None) -> Echo:
    echo = Echo()

    async def main() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher = Batcher(echo, thread, bounds or Bounds(), Metrics())
            running = asyncio.create_task(batcher.run())
            try:
                async with asyncio.timeout(20):
                    await work(batcher, echo)
            finally:
                echo.may.set()
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    asyncio.run(main())
    return echo


async def ask(
    batcher: Batcher, *numbers: float, explain: bool = False, dtype: torch.dtype = torch.float32
) -> list[float]:
    rows = torch.tensor([[number] for number in numbers], dtype=dtype)
    with batcher.room(1) as room:
        return [judged.score for judged in await batcher.judged(room, rows, explain=explain)]


def test_what_gathers_while_one_is_judged_is_judged_together() -> None:
    async def work(batcher: Batcher, echo: Echo) -> None:
        echo.may.clear()
        first = asyncio.create_task(ask(batcher, 0))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(ask(batcher, number, number + 0.5)) for number in range(1, 6)]
        await asyncio.sleep(0.05)
        echo.may.set()
        assert await first == [0]
        assert [await other for other in others] == [[number, number + 0.5] for number in range(1, 6)]

    echo = run(work, Bounds(batch=8))
    assert [len(batch) for batch in echo.batches] == [1, 8, 2]


def test_a_request_with_more_rows_than_a_batch_is_judged_alone() -> None:
    async def work(batcher: Batcher, _: Echo) -> None:
        assert await ask(batcher, *range(20, 40)) == list(range(20, 40))

    assert [len(batch) for batch in run(work, Bounds(batch=8)).batches] == [20]


def test_kinds_are_not_mixed() -> None:
    async def work(batcher: Batcher, echo: Echo) -> None:
        echo.may.clear()
        tasks = [
            asyncio.create_task(ask(batcher, place, explain=bool(place % 2), dtype=dtype))
            for place, dtype in enumerate([torch.float32, torch.float32, torch.float64, torch.float32] * 3)
        ]
        await asyncio.sleep(0.05)
        echo.may.set()
        assert [await task for task in tasks] == [[place] for place in range(12)]

    for batch in run(work).batches:
        assert len({(int(row) % 2, int(row) % 4 == 2) for row in batch}) == 1


def test_one_that_breaks_the_batch_breaks_no_other() -> None:
    async def work(batcher: Batcher, echo: Echo) -> None:
        echo.may.clear()
        first = asyncio.create_task(ask(batcher, 0))
        await asyncio.sleep(0.05)
        tasks = [asyncio.create_task(ask(batcher, number)) for number in (12, 13, 14)]
        await asyncio.sleep(0.05)
        echo.may.set()
        assert await first == [0]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[0::2] == [[12], [14]]
        assert isinstance(answers[1], Refusal)
        assert answers[1].status == 500

    run(work)


def test_a_batch_waits_for_those_on_their_way_and_for_nobody_else() -> None:
    async def work(batcher: Batcher, echo: Echo) -> None:
        started = time.monotonic()
        await ask(batcher, 0)
        assert time.monotonic() - started < 2.5, "alone it waits for nobody"
        with batcher.room(3) as room:
            early = asyncio.create_task(batcher.judged(room, torch.tensor([[1.0]]), explain=False))
            await asyncio.sleep(0.1)
            late = asyncio.create_task(batcher.judged(room, torch.tensor([[2.0]]), explain=False))
            await asyncio.sleep(0.1)
            assert echo.batches == [[0]]
            room.expect(-1)  # the third is no picture: there is nobody left to wait for
            await asyncio.gather(early, late)

    echo = run(work, Bounds(batch_seconds=5))
    assert echo.batches == [[0], [1, 2]]


def test_a_batch_does_not_wait_for_ever() -> None:
    async def work(batcher: Batcher, _: Echo) -> None:
        with batcher.room(2) as room:
            await batcher.judged(room, torch.tensor([[1.0]]), explain=False)

    assert run(work, Bounds(batch_seconds=0.05)).batches == [[1]]


def test_nobody_is_judged_who_has_left() -> None:
    async def work(batcher: Batcher, echo: Echo) -> None:
        echo.may.clear()
        first = asyncio.create_task(ask(batcher, 0))
        await asyncio.sleep(0.05)
        gone, stays = (asyncio.create_task(ask(batcher, number)) for number in (1, 2))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0)
        echo.may.set()
        assert await first == [0]
        assert await stays == [2]

    assert run(work).batches == [[0], [2]]


def test_the_queue_has_an_end() -> None:
    async def work(batcher: Batcher, _: Echo) -> None:
        with batcher.room(3):
            with pytest.raises(Refusal, match="3 of at most 4") as refused, batcher.room(2):
                pass
            assert refused.value.status == 503
            with batcher.room(1):
                pass
        started = time.monotonic()
        assert await ask(batcher, 1) == [1]
        assert time.monotonic() - started < 5, "those who did not come are not waited for"

    run(work, Bounds(queue=4, batch_seconds=10))


def test_one_who_leaves_while_the_batch_waits_stops_nothing() -> None:
    async def work(batcher: Batcher, _: Echo) -> None:
        with batcher.room(2) as room:
            gone = asyncio.create_task(batcher.judged(room, torch.tensor([[1.0]]), explain=False))
            await asyncio.sleep(0.05)
            gone.cancel()
            await asyncio.sleep(0.3)
        assert await ask(batcher, 2) == [2]

    assert run(work, Bounds(batch_seconds=0.2)).batches == [[2]]
