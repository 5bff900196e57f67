"""A table before it has a form: the digits that every form prints, the best and the second marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..benchmarks.compare import AVERAGE, shown
from ..benchmarks.results import BETTER, TABLED

METRIC_NAMES = {"fpr95": "FPR95 ↓", "auroc": "AUROC ↑"}


@dataclass(frozen=True)
class GridCell:
    """One number as printed. ``rank`` is 1 for the best of its column, 2 for the second, else 0."""

    value: str
    rank: int = 0
    interval: str | None = None
    published: str | None = None

    @property
    def extras(self) -> str:
        """What follows the number: its interval, then the published value."""
        parts = [f"[{self.interval}]"] if self.interval else []
        return " ".join([*parts, f"({self.published})"] if self.published else parts)


@dataclass(frozen=True)
class Grid:
    """One metric of one model: a row an entry, a column an OOD set and one for their average."""

    model: str
    metric: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[GridCell, ...]], ...]

    @property
    def title(self) -> str:
        return f"{METRIC_NAMES[self.metric]} in %, {self.model}"

    @property
    def has_published(self) -> bool:
        return any(cell.published for _, row in self.rows for cell in row)

    @property
    def has_intervals(self) -> bool:
        return any(cell.interval for _, row in self.rows for cell in row)

    @property
    def legend(self) -> str:
        parts = ["best bold, second underlined"]
        if self.has_intervals:
            parts.append("[bootstrap interval]")
        if self.has_published:
            parts.append("(published value), † where the paper contradicts itself or leaves doubt")
        return "; ".join(parts)


def printed(value: float) -> str:
    """The digits of a measured value, the same in every form."""
    return f"{value:.2f}"


def grids(results: Mapping[str, Any]) -> list[Grid]:
    """All tables of a run, in the order of its models; averages of a single set are left out."""
    return [
        _grid(results, model, metric)
        for model in dict.fromkeys(cell["model"] for cell in results["cells"])
        for metric in TABLED
    ]


def _grid(results: Mapping[str, Any], model: str, metric: str) -> Grid:
    cells = [cell for cell in results["cells"] if cell["model"] == model]
    columns = list(dict.fromkeys(cell["ood"] for cell in cells))
    if len(columns) == 2:
        columns.remove(AVERAGE)
    entries = list(dict.fromkeys(cell["entry"] for cell in cells))
    table = {(cell["entry"], cell["ood"]): cell for cell in cells}
    ranks = {
        column: _ranks([printed(table[entry, column][metric]) for entry in entries], BETTER[metric])
        for column in columns
    }
    rows = tuple(
        (entry, tuple(_cell(table[entry, column], metric, ranks[column][row]) for column in columns))
        for row, entry in enumerate(entries)
    )
    return Grid(model, metric, tuple(columns), rows)


def _cell(cell: Mapping[str, Any], metric: str, rank: int) -> GridCell:
    bounds = cell.get("intervals", {}).get(metric)
    interval = None if bounds is None else f"{printed(bounds[0])}, {printed(bounds[1])}"
    return GridCell(printed(cell[metric]), rank, interval, shown(cell["published"].get(metric, [])))


def _ranks(values: Sequence[str], better: str) -> list[int]:
    """1 and 2 for the best and the second value; what prints the same ranks the same."""
    if len(values) < 2:
        return [0] * len(values)
    order = sorted({float(value) for value in values}, reverse=better == "higher")
    return [order.index(float(value)) + 1 if order.index(float(value)) < 2 else 0 for value in values]
