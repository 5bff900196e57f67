"""A progress bar with its speed and the time left; in a log, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.text import Text

from ._console import clean, say, screen

if TYPE_CHECKING:
    from ..features.settings import ExtractionProgress, Watch

_INTERRUPTED = 130
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
        say(self.console, f"{self.title}: {done:,} of {total:,} {self.unit}")


@contextmanager
def progress_bar(
    console: Console, title: str, *, unit: str = "samples"
) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (samples done, samples in all)."""
    if not console.is_terminal:
        yield _Lines(console, title, unit)
        return
    described = TextColumn("{task.description}", markup=False)
    columns = (described, BarColumn(), MofNCompleteColumn(), _Speed(unit), TimeLeft())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(clean(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Extractions:
    """Extractions one after the other: a bar each, and a line on where the cache keeps the features."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = ExitStack()
        self.show: Callable[[int, int], None] | None = None
        self.done, self.total = 0, 0

    def __call__(self, now: ExtractionProgress) -> None:
        if self.show is None:
            title = f"{now.model} on {Path(now.data).name}"
            self.show = self.bar.enter_context(progress_bar(self.console, title))
            self.done, self.total = 0, 0
        if self.total == 0 and 0 < now.done < now.total:
            say(self.console, f"going on from {now.done:,} of {now.total:,} samples")
        self.done, self.total = now.done, now.total
        if now.total:
            self.show(now.done, now.total)
        if now.kept is not None:
            self.bar.close()
            self.show = None
            say(self.console, f"features of {now.data} are kept in {now.kept}")


@contextmanager
def extracting(console: Console) -> Iterator[Watch]:
    """Show extractions as they go; Ctrl-C during one says what is kept and how to go on."""
    extractions = _Extractions(console)
    with extractions.bar:
        try:
            yield extractions
        except KeyboardInterrupt:
            if extractions.show is None:
                raise
            done = f"{extractions.done:,} of {extractions.total:,} samples"
            say(
                screen(stderr=True),
                f"stopped at {done}: complete shards are kept. "
                f"Run the same command again to go on from there.",
            )
            raise typer.Exit(_INTERRUPTED) from None


class BenchBars:
    """A bar for every model whose features are extracted, then one for scoring."""

    def __init__(self, console: Console, bars: ExitStack) -> None:
        self.console = console
        self.bars = bars
        self.title = self.extracted = ""
        self.show: Callable[[int, int], None] = lambda _done, _total: None

    def say(self, text: str) -> None:
        say(self.console, text)

    def extracting(self, model: str, data_set: str, done: int, total: int) -> None:  # noqa: ARG002
        self.extracted = model
        self._under(model)(done, total)

    def scoring(self, model: str, data_set: str, done: int, total: int) -> None:  # noqa: ARG002
        self.extracted = ""
        self._under("scoring")(done, total)

    def _under(self, title: str) -> Callable[[int, int], None]:
        """The bar of that title; one with another title is taken down."""
        if title != self.title:
            self.bars.close()
            self.title, self.show = title, self.bars.enter_context(progress_bar(self.console, title))
        return self.show


@contextmanager
def watching(console: Console) -> Iterator[BenchBars]:
    """Show a benchmark as it goes; Ctrl-C during an extraction says what is kept and how to go on."""
    with ExitStack() as bars:
        watcher = BenchBars(console, bars)
        try:
            yield watcher
        except KeyboardInterrupt:
            if not watcher.extracted:
                raise
            bars.close()
            say(
                screen(stderr=True),
                f"stopped: complete shards of {watcher.extracted} are kept. "
                f"Run the same command again to go on.",
            )
            raise typer.Exit(_INTERRUPTED) from None
