"""A progress bar with images a second and the time left; silent where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.text import Text


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} images/s", style="progress.data.speed")


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (samples done, samples in all)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Speed(), TimeLeft())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
