"""What `theodolite score` says on screen: the first verdicts one by one, then the sum."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..guard import Guard, PathVerdict
from ..guard.verdicts import OOD, UNREADABLE

_NAMED = 5


class Summary:
    """Counts of everything, and the first few rows."""

    def __init__(self, guard: Guard, false_alarm_rate: float, shown: int) -> None:
        self.guard = guard
        self.false_alarm_rate = false_alarm_rate
        self.shown = shown
        self.count = 0
        self.flagged = 0
        self.unreadable: list[str] = []
        self.first: list[PathVerdict] = []

    def add(self, rows: Sequence[PathVerdict]) -> None:
        judged = [row for row in rows if row.verdict != UNREADABLE]
        self.count += len(judged)
        self.flagged += sum(row.verdict == OOD for row in judged)
        self.unreadable += [row.path for row in rows if row.verdict == UNREADABLE]
        self.first += judged[: self.shown - len(self.first)]

    def print(self, console: Console, output: Path | None) -> None:
        if self.first:
            console.print(self._table())
        rate, share, skipped = self.false_alarm_rate, self.flagged / max(1, self.count), self.unreadable
        lines = [
            f"{self.flagged:,} of {self.count:,} flagged as OOD ({100 * share:.1f} %); "
            f"of inputs like the calibration data about {100 * rate:g} % or fewer would be"
        ]
        if skipped:
            more = f" and {len(skipped) - _NAMED:,} more" if len(skipped) > _NAMED else ""
            lines.append(f"{len(skipped):,} unreadable, without verdict: {', '.join(skipped[:_NAMED])}{more}")
        if output is not None:
            lines.append(f"all rows in {output}")
        for line in lines:
            console.print(Text(line), soft_wrap=True)

    def _table(self) -> Table:
        title = self.guard.detector.record.title
        table = Table(caption_justify="left")
        if self.count > len(self.first):
            table.caption = f"the first {len(self.first)} of {self.count:,}"
        table.add_column("image", overflow="fold")
        table.add_column("class")
        for column in (title, "p-value", "verdict"):
            table.add_column(column, justify="right", no_wrap=True)
        for row in self.first:
            style = "bold yellow" if row.verdict == OOD else "green"
            cells = (f"{row.score:.4g}", f"{row.p_value:.3f}", Text(row.verdict, style=style))
            table.add_row(Text(row.path), Text(row.name or ""), *cells)
        return table
