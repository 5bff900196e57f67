"""The tables of the page: one a metric, a row a detector, the average first, then a column an OOD set."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.result import RunResult
from ...evaluation import Metric
from ..tables import Table, TableCell, metric_table
from ..tables.view import NAME, is_recommended
from .page import Page

# Rows of a table that a small screen shows at once; `report.css` hides the others.
ROWS = 12


@dataclass(frozen=True)
class MetricView:
    """A metric and its table.

    ``lowest_first`` are columns of which the least is the best, whatever the metric; ``said`` are sentences
    for the note below, without their full stops. ``marked`` are the rows of the recommended score, and
    ``sorted_by`` is the column that the rows are in the order of, `NAME` for their labels.
    """

    metric: Metric
    table: Table
    lowest_first: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    marked: Collection[str] = ()
    sorted_by: str | None = None

    @property
    def folds(self) -> bool:
        """Whether a small screen shows the first rows only, until all are asked for."""
        return len(self.table.rows) > ROWS

    @property
    def by_name(self) -> bool:
        return self.sorted_by == NAME

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
    """The tables of one model; of several OOD sets the means stand first, where a small screen shows them."""
    result, groups = page.result, page.result.groups(page.subject)
    said = tuple(f"{name} is the mean over {', '.join(sets)}" for name, sets in groups.items())
    return [
        MetricView(
            metric,
            means_first(metric_table(result, page.subject, metric, page.view), [AVERAGE, *groups]),
            said=said,
            marked=recommended_rows(result),
            sorted_by=sorted_by(page.sort, metric),
        )
        for metric in page.metrics
    ]


def means_first(table: Table, means: Sequence[str]) -> Table:
    """The same table with some of its columns right behind the labels."""
    label, *columns = table.header
    places = sorted(range(len(columns)), key=lambda place: columns[place] not in means)
    rows = tuple((name, tuple(cells[place] for place in places)) for name, cells in table.rows)
    return replace(table, header=(label, *(columns[place] for place in places)), rows=rows)


def recommended_rows(result: RunResult) -> frozenset[str]:
    return frozenset(label for label in result.detectors if is_recommended(result, label))


def sorted_by(sort: str | None, known: Metric) -> str | None:
    """The column whose order the rows of a metric's table are in: the average, where it is its own."""
    return AVERAGE if sort == known.name else sort
