"""Writing behind: a thread writes what is done while the next is computed.

What was handed over is written, in order, whatever ends the work: the end, an error, or Ctrl-C. An error of
the writer comes up at the next hand-over, or at the end, and nothing is written after it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

Given = ParamSpec("Given")

# Pieces that wait to be written; one more waits for room, and the work with it.
WAITING = 2


class _Behind:
    """Calls of one function, in another thread and in order."""

    def __init__(self, work: Callable[..., object]) -> None:
        self._work = work
        self._waiting: queue.Queue[tuple[tuple[object, ...], dict[str, object]] | None] = queue.Queue(WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="theodolite-writer", daemon=True)
        self._thread.start()

    def __call__(self, *given: object, **named: object) -> None:
        self.complain()
        self._waiting.put((given, named))

    def complain(self) -> None:
        """Raise the writer's error, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def end(self) -> None:
        """Wait until all is written."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        failed = False
        while (piece := self._waiting.get()) is not None:
            if failed:  # taken all the same: whoever waits for room must not wait for ever
                continue
            try:
                self._work(*piece[0], **piece[1])
            except BaseException as error:
                self._error, failed = error, True


@contextmanager
def behind(work: Callable[Given, object]) -> Iterator[Callable[Given, None]]:
    """``work``, to be called as itself; on leaving, all calls have been carried out."""
    calls = _Behind(work)
    try:
        yield calls
    except BaseException:
        calls.end()
        raise
    calls.end()
    calls.complain()
