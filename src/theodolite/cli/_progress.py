"""A progress bar with its speed and the time left; in a log, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.text import Text

_SECONDS_BETWEEN_LINES = 30


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("")
        shown = f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"
        return Text(f"{shown} {self.unit}/s", style="progress.data.speed")


class _Lines:
    """For logs: a line now and then instead of a bar."""

    def __init__(self, console: Console, title: str, unit: str) -> None:
        self.console, self.title, self.unit = console, title, unit
        self.said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.said < _SECONDS_BETWEEN_LINES or done >= total:
            return
        self.said = time.monotonic()
        self.console.print(
            f"{self.title}: {done:,} of {total:,} {self.unit}", highlight=False, markup=False, soft_wrap=True
        )


@contextmanager
def progress_bar(
    console: Console, title: str, *, unit: str = "images"
) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (samples done, samples in all)."""
    if not console.is_terminal:
        yield _Lines(console, title, unit)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Speed(unit), TimeLeft())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
