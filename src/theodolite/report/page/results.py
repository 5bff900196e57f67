"""The tables of the page: one a metric, a row a detector, a column an OOD set."""

from __future__ import annotations

from dataclasses import dataclass

from ...evaluation import Metric
from ..tables import Table, TableCell, metric_table
from .page import Page


@dataclass(frozen=True)
class MetricView:
    """A metric and its table.

    ``lowest_first`` are columns of which the least is the best, whatever the metric; ``said`` are sentences
    for the note below, without their full stops.
    """

    metric: Metric
    table: Table
    lowest_first: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.table.header[1:]

    @property
    def first_order(self) -> list[str]:
        """How the first click sorts each column: the best to the top."""
        lower = self.metric.lower_is_better
        return [
            "ascending" if lower or column in self.lowest_first else "descending" for column in self.columns
        ]

    @property
    def compared(self) -> list[bool]:
        """Whether a column has published values: it then keeps room for them in every row."""
        rows = [row for _, row in self.table.rows]
        return [any(row[place].published for row in rows) for place in range(len(self.columns))]

    @property
    def doubtful(self) -> bool:
        return any((cell.published or "").endswith("†") for cell in self._cells)

    @property
    def has_intervals(self) -> bool:
        return any(cell.interval for cell in self._cells)

    @property
    def has_spreads(self) -> bool:
        return any(cell.spread for cell in self._cells)

    @property
    def marks_ranks(self) -> bool:
        """Tables of differences have no best."""
        return not self.table.rows or len(self.table.rows) == 1 or any(cell.rank for cell in self._cells)

    @property
    def _cells(self) -> list[TableCell]:
        return [cell for _, row in self.table.rows for cell in row]


def metric_views(page: Page) -> list[MetricView]:
    groups = page.result.groups(page.subject)
    said = tuple(f"{name} is the mean over {', '.join(sets)}" for name, sets in groups.items())
    return [
        MetricView(metric, metric_table(page.result, page.subject, metric), said=said)
        for metric in page.metrics
    ]
