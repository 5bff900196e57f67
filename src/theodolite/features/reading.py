"""Reading ahead: threads prepare the next batches while the model is busy with one.

Decoders and tensor operations let other threads run, so a thread does what a worker process would, without
its start, its copy of the data set or its shared memory. What is read ahead is bounded: memory does not grow
with the number of samples.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

# Batches that are read while one is in the model's hands.
AHEAD = 2
_MOST_THREADS = 8


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Half of the cores, at most 8, at least one: they wait whenever the model is the slower one."""
    return min(_MOST_THREADS, max(1, cores() // 2))


def read_ahead(
    read: Callable[[int], Item], plan: Iterable[list[int]], *, threads: int
) -> Generator[list[Item], None, None]:
    """What ``read`` makes of the planned samples, batch after batch, in order.

    At most `AHEAD` batches and the one asked for are read or wait to be taken. An error of ``read`` is raised
    where its batch is due. Whoever stops early waits only for the samples that are being read just then.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="theodolite-reader")
    try:
        waiting: deque[list[Future[Item]]] = deque()
        for samples in plan:
            waiting.append([pool.submit(read, sample) for sample in samples])
            if len(waiting) > AHEAD:
                yield [future.result() for future in waiting.popleft()]
        while waiting:
            yield [future.result() for future in waiting.popleft()]
    finally:
        pool.shutdown(cancel_futures=True)
