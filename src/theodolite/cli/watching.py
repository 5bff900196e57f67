"""What `theodolite monitor` does with a stream: update, count, and say what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console

from ..guard import Calibration, Monitor
from ..guard.calibration import flagged
from ..guard.martingale import MARTINGALE
from ..report.evidence import Trace, odds_text
from ..report.score_streams import STANDARD_INPUT, StreamRow, read_stream, scores_of
from ._console import say

_ROWS = 1_024
# Rows of standard input do not come again: what they gave is written so often.
_KEPT_EVERY = 1_000


class Watch:
    """A monitor, the rows it gets, and what is told of them; memory does not grow with the rows."""

    def __init__(
        self, monitor: Monitor, calibration: Calibration, rate: float, state: Path | None, console: Console
    ) -> None:
        self.monitor, self.calibration, self.rate = monitor, calibration, rate
        self.state, self.console = state, console
        self.before = monitor.seen
        self.earlier_alarm = monitor.alarmed_at
        self.trace = Trace(first=monitor.seen + 1)
        self.flagged = self.judged = self.unproven = 0
        self.interrupted = False

    def follow(self, stream: str) -> None:
        """All rows of a file; of standard input one at a time, until it ends or is interrupted."""
        live = stream == STANDARD_INPUT
        rows = read_stream(stream)
        while batch := self._next(rows, live):
            self._take(batch)
            if live and self.state is not None and self.monitor.seen % _KEPT_EVERY == 0:
                self.monitor.save(self.state)

    def _next(self, rows: Iterator[StreamRow], live: bool) -> list[StreamRow]:
        try:
            return list(islice(rows, 1 if live else _ROWS))
        except KeyboardInterrupt:
            if not live:
                raise
            self.interrupted = True
            return []

    def _take(self, rows: list[StreamRow]) -> None:
        scores, p_values = scores_of(rows, self.calibration)
        self.flagged += sum(flagged(p_value, self.rate) for p_value in p_values.tolist())
        self.judged += int((~np.isnan(p_values)).sum())
        self.unproven += sum(row.p_value is None for row in rows) - int(np.isnan(scores).sum())
        before, was_quiet = self.monitor.seen, self.monitor.alarmed_at is None
        reading = self.monitor.update(scores)
        self.trace.add(reading.trace)
        if was_quiet and reading.alarmed_at is not None:
            row = rows[reading.alarmed_at - before - 1]
            what = row.place if row.path is None else f"{row.path}; {row.place}"
            say(self.console, f"sample {reading.alarmed_at:,} ({what})", "bold yellow", title="alarm: ")

    def print(self, figure: Path | None) -> None:
        for line in (*self._counts(), *self._evidence(), self._flagged()):
            say(self.console, line)
        if figure is not None:
            say(self.console, f"evidence over time in {figure}")
        if self.state is not None:
            say(self.console, f"state after {self.monitor.seen:,} samples in {self.state}")

    def _counts(self) -> Iterator[str]:
        if self.interrupted:
            yield "interrupted: what had been read counts"
        now = self.monitor.seen - self.before
        yield f"{now:,} samples" + (f", after {self.before:,} before" if self.before else "")
        if self.monitor.unscorable:
            count = self.monitor.unscorable
            yield f"{count:,} of all without a score, each counted as stranger than every score"
        if self.unproven:
            yield f"{self.unproven:,} scores came without p-values: nothing shows that they are this guard's"

    def _evidence(self) -> Iterator[str]:
        monitor = self.monitor
        yield (
            f"evidence of a change {odds_text(monitor.evidence)} : 1 now, {odds_text(monitor.peak)} : 1 at "
            f"its highest; the alarm is at {odds_text(monitor.threshold)} : 1"
        )
        promise = (
            f"of streams in which nothing changes at most {100 * monitor.alarm:g} % ever raise one"
            if monitor.kind == MARTINGALE
            else f"where nothing changes one takes {1 / monitor.alarm:,.0f} samples or more on average"
        )
        if monitor.alarmed_at is None:
            yield f"no alarm; {promise}"
        else:
            earlier = ", before these samples" if self.earlier_alarm is not None else ""
            yield f"alarm at sample {monitor.alarmed_at:,}{earlier}; {promise}"

    def _flagged(self) -> str:
        share = 100 * self.flagged / max(1, self.judged)
        return (
            f"{self.flagged:,} of {self.judged:,} flagged as OOD ({share:.1f} %); of inputs like the "
            f"calibration data about {100 * self.rate:g} % or fewer would be"
        )
