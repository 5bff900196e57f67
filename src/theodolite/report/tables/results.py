"""The tables of a result: one a model and metric, and one long table of every cell."""

from __future__ import annotations

from ...benchmarks.cells import Cell
from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.result import RunResult
from ...evaluation import Metric, metric
from .table import Table, TableCell, printed, ranks

LONG = ("model", "score", "ood", "metric", "value", "low", "high", "published")


# What OpenOOD reports beside AUROC: where near and far are shown, these have tables too.
_OPENOOD = ("fpr95_ood_positive", "aupr_in", "aupr_out")


def metric_tables(result: RunResult) -> list[Table]:
    """All tables of a run, in the order of its models."""
    return [
        metric_table(result, subject, known)
        for subject in result.subject_names
        for known in result.metrics(subject)
        if known.tabled or (known.name in _OPENOOD and result.groups(subject))
    ]


def metric_table(result: RunResult, subject: str, known: Metric) -> Table:
    """A row a detector, a column an OOD set, one for each group of them and one for the average of all.

    A single set has no average.
    """
    sets, groups = result.ood_names(subject), result.groups(subject)
    columns = (*sets, *groups, AVERAGE) if len(sets) > 1 else tuple(sets)
    detectors = result.detector_names(subject)
    cells = {
        column: [result.cell(subject, detector, column, known.name) for detector in detectors]
        for column in columns
    }
    marks = {
        column: ranks([printed(cell.value) for cell in found], lower_is_better=known.lower_is_better)
        for column, found in cells.items()
    }
    rows = tuple(
        (detector, tuple(_shown(cells[column][row], marks[column][row]) for column in columns))
        for row, detector in enumerate(detectors)
    )
    title = f"{known.title} {known.arrow} in %, {subject}"
    legend = _legend([cell for _, row in rows for cell in row])
    over = [f"{name} is the mean over {', '.join(members)}" for name, members in groups.items()]
    return Table(title, ("score", *columns), rows, "; ".join([legend, *over]))


def long_table(result: RunResult) -> Table:
    """Every cell, one a line; averages included."""
    rows = []
    for cell in result.cells:
        low, high = ("", "") if cell.interval is None else map(printed, cell.interval)
        published = shown_published(cell) if metric(cell.metric).tabled else None
        texts = (cell.detector, cell.ood, cell.metric, printed(cell.value), low, high, published or "")
        rows.append((cell.subject, *texts))
    return Table.of_texts(result.title, LONG, rows)


def shown_published(cell: Cell) -> str | None:
    """One printed number: the first, with † where tables disagree or it has a caveat."""
    if not cell.published:
        return None
    return f"{cell.published[0].printed}{'†' if cell.doubtful else ''}"


def _shown(cell: Cell, rank: int) -> TableCell:
    interval = None if cell.interval is None else ", ".join(map(printed, cell.interval))
    return TableCell(printed(cell.value), rank, interval, shown_published(cell))


def _legend(cells: list[TableCell]) -> str:
    parts = ["best bold, second underlined"]
    if any(cell.interval for cell in cells):
        parts.append("[bootstrap interval]")
    if any(cell.published for cell in cells):
        parts.append("(published value), † where the paper contradicts itself or leaves doubt")
    return "; ".join(parts)
