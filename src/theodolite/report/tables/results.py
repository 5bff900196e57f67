"""The tables of a result: one a model and metric, and one long table of every cell."""

from __future__ import annotations

from collections.abc import Sequence

from ...benchmarks.cells import Cell
from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.result import RunResult
from ...evaluation import Metric, metric
from .table import Table, TableCell, printed, ranks
from .view import View

LONG = ("model", "score", "ood", "metric", "value", "low", "high", "published", "std", "repeats")


def model_tables(result: RunResult, view: View | None = None) -> list[Table]:
    """The tables of every model and ensemble by itself, in the order of the run; of repeats their mean."""
    view = view or View()
    return [
        metric_table(result, subject, known, view)
        for subject in result.tabled_subjects
        for known in view.tabled(result.metrics(subject), grouped=bool(result.groups(subject)))
    ]


def metric_table(result: RunResult, subject: str, known: Metric, view: View | None = None) -> Table:
    """A row a detector, a column an OOD set, one for each group of them and one for the average of all.

    A single set has no average.
    """
    view = view or View()
    sets, groups = result.ood_names(subject), result.groups(subject)
    columns = (*sets, *groups, AVERAGE) if len(sets) > 1 else tuple(sets)
    detectors = view.rows(result, subject, known)
    cells = {
        column: [result.cell(subject, detector, column, known.name) for detector in detectors]
        for column in columns
    }
    rows = marked_rows(detectors, list(cells.values()), known)
    title = f"{known.title} {known.arrow} in %, {subject}"
    over = [f"{name} is the mean over {', '.join(members)}" for name, members in groups.items()]
    left_out = view.said(len(detectors), len(result.detector_names(subject)))
    said = legend([cell for found in cells.values() for cell in found], [*left_out, *over])
    return Table(title, ("score", *columns), rows, said, name=f"{known.name}-{subject}")


def marked_rows(
    labels: Sequence[str], columns: Sequence[Sequence[Cell]], known: Metric
) -> tuple[tuple[str, tuple[TableCell, ...]], ...]:
    """Rows of cells, the best and the second of every column marked."""
    marks = [
        ranks([printed(cell.value) for cell in column], lower_is_better=known.lower_is_better)
        for column in columns
    ]
    return tuple(
        (label, tuple(shown(column[row], mark[row]) for column, mark in zip(columns, marks, strict=True)))
        for row, label in enumerate(labels)
    )


def long_table(result: RunResult) -> Table:
    """Every cell, one a line; averages over OOD sets and over models included."""
    rows = []
    averages = () if result.joint is None else result.joint.averages
    for cell in (*result.cells, *(cell for average in averages for cell in average.cells)):
        low, high = ("", "") if cell.interval is None else map(printed, cell.interval)
        std, repeats = (
            ("", "") if cell.spread is None else (printed(cell.spread.std), str(cell.spread.repeats))
        )
        published = shown_published(cell) if metric(cell.metric).tabled else None
        texts = (cell.detector, cell.ood, cell.metric, printed(cell.value), low, high, published or "")
        rows.append((cell.subject, *texts, std, repeats))
    return Table.of_texts(result.title, LONG, rows)


def shown_published(cell: Cell) -> str | None:
    """One printed number: the first, with † where tables disagree or it has a caveat."""
    if not cell.published:
        return None
    return f"{cell.published[0].printed}{'†' if cell.doubtful else ''}"


def shown(cell: Cell, rank: int) -> TableCell:
    """A cell as printed."""
    interval = None if cell.interval is None else ", ".join(map(printed, cell.interval))
    spread = None if cell.spread is None else printed(cell.spread.std)
    return TableCell(printed(cell.value), rank, interval, shown_published(cell), spread)


def legend(cells: Sequence[Cell], left_out: Sequence[str] = ()) -> str:
    """What the marks and the extras of a table mean."""
    parts = ["best bold, second underlined", *left_out]
    repeats = sorted({cell.spread.repeats for cell in cells if cell.spread is not None})
    if repeats:
        count = " or ".join(map(str, repeats))
        parts.append(f"± standard deviation over {count} repeats (n − 1 in its denominator)")
    if any(cell.interval for cell in cells):
        parts.append("[bootstrap interval]")
    if any(cell.published for cell in cells):
        parts.append("(published value), † where the paper contradicts itself or leaves doubt")
    return "; ".join(parts)
