"""A progress bar with its speed and the time left; silent where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.text import Text


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


@contextmanager
def progress_bar(
    console: Console, title: str, *, unit: str = "images"
) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (samples done, samples in all)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Speed(unit), TimeLeft())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
