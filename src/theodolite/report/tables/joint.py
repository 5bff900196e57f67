"""Several models in one table."""

from __future__ import annotations

from collections.abc import Sequence

from ...benchmarks.cells import Cell
from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.result import RunResult
from ...evaluation import Metric
from .results import legend, model_tables, shown
from .table import ABSENT, Table, TableCell, printed, ranks
from .view import View, printed_rank

RANK = "rank"
OVER_SETS = "of every model the average over its OOD sets"


def metric_tables(result: RunResult, view: View | None = None) -> list[Table]:
    """All tables of a run: the joint ones of several models, then those of every model by itself."""
    return [*joint_tables(result, view), *model_tables(result, view)]


def joint_tables(result: RunResult, view: View | None = None) -> list[Table]:
    """One a metric; none where the models of a result were not joined."""
    view = view or View()
    return [joint_table(result, known, view) for known in view.tabled(common_metrics(result))]


def joint_table(result: RunResult, known: Metric, view: View | None = None) -> Table:
    """A row a score; a column a model, the averages over models, and the mean rank.

    A score that some model has not has neither an average over models nor a rank.
    """
    view = view or View()
    labels = view.joint_rows(result, known)
    columns = joint_columns(result, labels, known)
    marked = [marked_cells(column, known) for column in columns.values()]
    places = {} if result.joint is None else result.joint.ranks.get(known.name, {})
    marked.append(_ranked([places.get(label) for label in labels]))
    rows = tuple((label, tuple(column[row] for column in marked)) for row, label in enumerate(labels))
    said = [
        OVER_SETS,
        *said_of_averages(result),
        f"{RANK}: place among the {len(places)} scores that every model has, averaged over models",
        *view.said_of_order(result),
        *view.said(len(labels), len(View().joint_rows(result, known))),
    ]
    found = [cell for column in columns.values() for cell in column if cell is not None]
    title = f"{known.title} {known.arrow} in %, {len(result.models)} models"
    return Table(title, ("score", *columns, RANK), rows, legend(found, said), name=f"{known.name}-models")


def said_of_averages(result: RunResult) -> list[str]:
    """Over which models an average is, where it is not over all."""
    averages = () if result.joint is None else result.joint.averages
    return [
        f"{average.name}: {', '.join(average.models)}"
        for average in averages
        if list(average.models) != result.models
    ]


def common_metrics(result: RunResult) -> list[Metric]:
    """The metrics that every model has; none where models are not joined."""
    if result.joint is None:
        return []
    first, *others = result.models
    return [known for known in result.metrics(first) if all(known in result.metrics(one) for one in others)]


def joint_columns(result: RunResult, labels: Sequence[str], known: Metric) -> dict[str, list[Cell | None]]:
    """The average over OOD sets of every score, by model and then by average over models."""
    averages = () if result.joint is None else result.joint.averages
    cells: dict[str, Sequence[Cell]] = dict.fromkeys(result.models, result.cells)
    cells |= {average.name: average.cells for average in averages}
    columns = {}
    for name, among in cells.items():
        found = {
            cell.detector: cell
            for cell in among
            if (cell.subject, cell.ood, cell.metric) == (name, AVERAGE, known.name)
        }
        columns[name] = [found.get(label) for label in labels]
    return columns


def marked_cells(cells: Sequence[Cell | None], known: Metric) -> list[TableCell]:
    """A column as printed, the best and the second marked."""
    texts = [ABSENT.text if cell is None else printed(cell.value) for cell in cells]
    marks = ranks(texts, lower_is_better=known.lower_is_better)
    return [ABSENT if cell is None else shown(cell, mark) for cell, mark in zip(cells, marks, strict=True)]


def _ranked(places: Sequence[float | None]) -> list[TableCell]:
    texts = [ABSENT.text if place is None else printed_rank(place) for place in places]
    marks = ranks(texts, lower_is_better=True)
    return [TableCell(text, mark) for text, mark in zip(texts, marks, strict=True)]
