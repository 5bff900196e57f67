"""Writing behind: in order, bounded, nothing lost at an error or Ctrl-C, errors of the writer raised."""

from __future__ import annotations

import threading
import time

import pytest

from theodolite.features.behind import WAITING, behind


def test_all_is_written_in_order_and_not_by_the_caller() -> None:
    written: list[int] = []
    threads = set()

    def slowly(value: int) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)
        written.append(value)

    with behind(slowly) as write:
        for value in range(30):
            write(value)
            assert value - len(written) <= WAITING + 2, "it waits for room"
    assert written == list(range(30))
    assert threads.isdisjoint({threading.get_ident()})


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_handed_over_is_written_whatever_ends_the_work(error: type[BaseException]) -> None:
    written: list[int] = []

    def slowly(value: int) -> None:
        time.sleep(0.02)
        written.append(value)

    def work() -> None:
        with behind(slowly) as write:
            write(1)
            write(2)
            raise error

    with pytest.raises(error):
        work()
    assert written == [1, 2]


def test_an_error_of_the_writer_comes_up_and_nothing_is_written_after_it() -> None:
    written: list[int] = []

    def full(value: int) -> None:
        if value == 1:
            raise OSError("no space left")
        written.append(value)

    def work(count: int) -> None:
        with behind(full) as write:
            for value in range(count):
                write(value)

    for count in (2, 100):  # at the end, and at a later hand-over
        written.clear()
        with pytest.raises(OSError, match="no space left"):
            work(count)
        assert written == [0]
