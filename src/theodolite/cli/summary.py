"""What `theodolite score` says on screen: the strangest samples one by one, then the sum."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..guard.verdicts import OOD
from ..report.p_values import p_value_text
from ..report.tally import Tally
from ._console import clean, say


class Summary(Tally):
    """Counts of everything, and the few strangest rows: memory does not grow with the samples."""

    def __init__(self, title: str, false_alarm_rate: float, shown: int, fdr: float | None = None) -> None:
        super().__init__(shown)
        self.title = title
        self.false_alarm_rate = false_alarm_rate
        self.fdr = fdr

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
        shown = len(self.strangest)
        table = Table(caption_justify="left")
        if self.count > 1:
            which = f"all {shown}" if self.count == shown else f"the {shown} strangest of {self.count:,}"
            table.caption = f"{which}, lowest p-value first"
        table.add_column("image", overflow="fold")
        table.add_column("class")
        for column in (self.title, "p-value", "verdict"):
            table.add_column(column, justify="right", no_wrap=True)
        for row in self.strangest:
            style = "bold yellow" if row.verdict == OOD else "green"
            cells = (f"{row.score:.4g}", p_value_text(row.p_value or 0.0), Text(row.verdict, style=style))
            table.add_row(Text(clean(row.path)), Text(clean(row.name or "")), *cells)
        return table
