"""Reading ahead: order, a bound on what is in flight, errors where they belong, no threads left behind."""

from __future__ import annotations

import threading
import time

import pytest

from theodolite.features import reading
from theodolite.features.loading import consecutive
from theodolite.features.reading import AHEAD, read_ahead


class Counted:
    """Reads numbers and counts how many were read and not yet taken, and how many threads read at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.read = self.taken = self.most = self.now = self.together = 0

    def __call__(self, sample: int) -> int:
        with self.lock:
            self.now += 1
            self.together = max(self.together, self.now)
        time.sleep(0.0001 * (sample % 3))
        with self.lock:
            self.now -= 1
            self.read += 1
            self.most = max(self.most, self.read - self.taken)
        return sample

    def take(self, count: int) -> None:
        with self.lock:
            self.taken += count


@pytest.mark.parametrize("threads", [1, 4])
def test_batches_come_in_order_and_so_many_are_in_flight_whatever_the_number(threads: int) -> None:
    most = []
    for samples in (60, 300):
        counted, seen = Counted(), []
        for batch in read_ahead(counted, consecutive(range(samples), 10), threads=threads):
            time.sleep(0.01)  # a model slower than its readers
            seen += batch
            counted.take(len(batch))
        assert seen == list(range(samples))
        assert counted.together <= threads
        most.append(counted.most)
    assert max(most) <= (AHEAD + 1) * 10
    assert most[1] >= 2 * 10, "it reads ahead"


def test_an_error_is_raised_where_its_batch_is_due_and_no_thread_stays() -> None:
    def read(sample: int) -> int:
        if sample == 25:
            raise ConnectionResetError("the server of the pictures is gone")
        return sample

    batches = read_ahead(read, consecutive(range(100), 10), threads=2)
    assert [next(batches)[0], next(batches)[0]] == [0, 10]
    with pytest.raises(ConnectionResetError, match="is gone"):
        next(batches)
    assert not readers()


def test_whoever_stops_early_waits_for_no_more_than_is_being_read() -> None:
    counted = Counted()
    batches = read_ahead(counted, consecutive(range(10_000), 10), threads=2)
    next(batches)
    batches.close()
    assert counted.read <= (AHEAD + 1) * 10
    assert not readers()


def test_the_number_of_threads_follows_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, threads in ((1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (64, 8)):
        monkeypatch.setattr(reading, "cores", lambda cores=cores: cores)
        assert reading.default_threads() == threads


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("theodolite-reader")]
