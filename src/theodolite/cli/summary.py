"""What `theodolite score` says on screen: the strangest samples one by one, then the sum."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..guard import Guard, PathVerdict
from ..guard.verdicts import ID, OOD
from ..report.p_values import p_value_text
from ._console import clean, say

_NAMED = 5


class Summary:
    """Counts of everything, and the few strangest rows: memory does not grow with the samples."""

    def __init__(self, guard: Guard, false_alarm_rate: float, shown: int, fdr: float | None = None) -> None:
        self.guard = guard
        self.false_alarm_rate = false_alarm_rate
        self.fdr = fdr
        self.shown = shown
        self.verdicts: Counter[str] = Counter()
        self.strangest: list[PathVerdict] = []
        self.unjudged: dict[str, list[str]] = {}

    @property
    def count(self) -> int:
        """Samples that have a score."""
        return self.verdicts[ID] + self.verdicts[OOD]

    @property
    def all_trusted(self) -> bool:
        """Every sample has a verdict, and it is ID."""
        return self.verdicts.total() == self.verdicts[ID]

    def add(self, rows: Sequence[PathVerdict]) -> None:
        self.verdicts.update(row.verdict for row in rows)
        judged = [row for row in rows if row.verdict in (ID, OOD)]
        self.strangest = heapq.nsmallest(self.shown, [*self.strangest, *judged], key=_strangeness)
        for row in rows:
            if row.verdict not in (ID, OOD):
                names = self.unjudged.setdefault(row.verdict, [])
                names += [row.path][: _NAMED - len(names)]

    def print(self, console: Console, output: Path | None) -> None:
        if self.strangest:
            console.print(self._table())
        flagged = self.verdicts[OOD]
        lines = [
            f"{flagged:,} of {self.count:,} flagged as OOD ({100 * flagged / max(1, self.count):.1f} %); "
            f"{self._promise()}"
        ]
        for verdict, names in self.unjudged.items():
            count = self.verdicts[verdict]
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            lines.append(f"{count:,} {verdict}, without verdict: {', '.join(names)}{more}")
        if output is not None:
            lines.append(f"all rows in {output}")
        for line in lines:
            say(console, line)

    def _promise(self) -> str:
        if self.fdr is None:
            rate = f"{100 * self.false_alarm_rate:g} %"
            return f"of inputs like the calibration data about {rate} or fewer would be"
        return f"of those flagged, on average at most {100 * self.fdr:g} % are like the calibration data"

    def _table(self) -> Table:
        title, shown = self.guard.title, len(self.strangest)
        table = Table(caption_justify="left")
        if self.count > 1:
            which = f"all {shown}" if self.count == shown else f"the {shown} strangest of {self.count:,}"
            table.caption = f"{which}, lowest p-value first"
        table.add_column("image", overflow="fold")
        table.add_column("class")
        for column in (title, "p-value", "verdict"):
            table.add_column(column, justify="right", no_wrap=True)
        for row in self.strangest:
            style = "bold yellow" if row.verdict == OOD else "green"
            cells = (f"{row.score:.4g}", p_value_text(row.p_value or 0.0), Text(row.verdict, style=style))
            table.add_row(Text(clean(row.path)), Text(clean(row.name or "")), *cells)
        return table


def _strangeness(row: PathVerdict) -> tuple[float, float]:
    """The lowest p-value comes first, and of equal ones the lowest score."""
    assert row.p_value is not None
    assert row.score is not None
    return row.p_value, row.score
