"""The tables of the page: one a metric, a row a detector, a column an OOD set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...evaluation import Metric
from ..tables import Table, TableCell, metric_table
from .page import Page


@dataclass(frozen=True)
class MetricView:
    """A metric and its table; ``groups`` are the columns that are means, and the sets they are over."""

    metric: Metric
    table: Table
    groups: Mapping[str, tuple[str, ...]]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.table.header[1:]

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
    def _cells(self) -> list[TableCell]:
        return [cell for _, row in self.table.rows for cell in row]


def metric_views(page: Page) -> list[MetricView]:
    groups = page.result.groups(page.subject)
    return [
        MetricView(metric, metric_table(page.result, page.subject, metric), groups) for metric in page.metrics
    ]
