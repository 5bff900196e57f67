"""Several metrics in one table: FPR95 ↓ beside AUROC ↑, below a heading for what they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...benchmarks.cells import Cell
from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.result import RunResult
from ...evaluation import Metric
from .joint import OVER_SETS, common_metrics, joint_columns, marked_cells, said_of_averages
from .results import legend
from .table import Table
from .view import View


def combined_tables(result: RunResult, view: View | None = None) -> list[Table]:
    """One of all models where they are joined, else one a subject; none where there is one metric only."""
    view = view or View()
    if result.joint is not None:
        return [combined_models(result, view)] if len(view.tabled(common_metrics(result))) > 1 else []
    return [
        combined_sets(result, subject, view)
        for subject in result.tabled_subjects
        if len(view.tabled(result.metrics(subject))) > 1
    ]


def combined_models(result: RunResult, view: View | None = None) -> Table:
    """Headings are the models and the averages over them; rows are sorted by the first metric."""
    view = view or View()
    metrics = view.tabled(common_metrics(result))
    labels = view.joint_rows(result, metrics[0])
    columns = [joint_columns(result, labels, known) for known in metrics]
    cells = {heading: [column[heading] for column in columns] for heading in columns[0]}
    everyone = View().joint_rows(result, metrics[0])
    said = [OVER_SETS, *said_of_averages(result), *view.said(len(labels), len(everyone))]
    table = _table(f"{len(result.models)} models", metrics, labels, cells, said)
    return replace(table, name="metrics-models")


def combined_sets(result: RunResult, subject: str, view: View | None = None) -> Table:
    """Headings are the OOD sets of a subject and their average; rows are sorted by the first metric."""
    view = view or View()
    metrics = view.tabled(result.metrics(subject))
    labels = view.rows(result, subject, metrics[0])
    sets = result.ood_names(subject)
    cells: dict[str, list[list[Cell | None]]] = {
        heading: [[result.cell(subject, label, heading, known.name) for label in labels] for known in metrics]
        for heading in ([*sets, AVERAGE] if len(sets) > 1 else sets)
    }
    said = view.said(len(labels), len(result.detector_names(subject)))
    return _table(subject, metrics, labels, cells, said)


def _table(
    what: str,
    metrics: Sequence[Metric],
    labels: Sequence[str],
    cells: dict[str, list[list[Cell | None]]],
    said: Sequence[str],
) -> Table:
    """Intervals and published values are left to the tables of one metric."""
    columns = [
        (known, [None if cell is None else replace(cell, interval=None, published=()) for cell in column])
        for found in cells.values()
        for known, column in zip(metrics, found, strict=True)
    ]
    marked = [marked_cells(column, known) for known, column in columns]
    below = [f"{known.title} {known.arrow}" for known in metrics]
    return Table(
        f"{' and '.join(below)} in %, {what}",
        ("score", *below * len(cells)),
        tuple((label, tuple(column[row] for column in marked)) for row, label in enumerate(labels)),
        legend([cell for _, column in columns for cell in column if cell is not None], said),
        groups=tuple((heading, len(metrics)) for heading in cells),
        name=f"metrics-{what}",
    )
