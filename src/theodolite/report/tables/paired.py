"""How far every score is from the one it was held against."""

from __future__ import annotations

from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.paired import PairedTests
from ...benchmarks.result import RunResult
from ...evaluation import Metric
from .table import Table, TableCell, printed
from .view import View

LONG_PAIRED = (
    "model", "score", "against", "ood", "metric", "difference", "low", "high", "p", "p_holm",
)  # fmt: skip


def paired_tables(result: RunResult, view: View | None = None, *, subject: str | None = None) -> list[Table]:
    """One a subject (or of one) and metric, of averages over OOD sets; repeats are tested each by itself."""
    view, tests = view or View(), result.paired
    if tests is None:
        return []
    tested = {cell.metric for cell in tests.cells}
    return [
        _table(result, tests, name, known, view)
        for name in dict.fromkeys(cell.subject for cell in tests.cells if subject in (None, cell.subject))
        for known in view.tabled(result.metrics(name))
        if known.name in tested
    ]


def paired_long_table(result: RunResult) -> Table:
    """Every difference, one a line."""
    tests = result.paired
    rows = [
        (
            cell.subject,
            cell.detector,
            "" if tests is None else tests.against,
            cell.ood,
            cell.metric,
            *(printed(value) for value in (cell.difference, cell.low, cell.high)),
            *(f"{value:.6g}" for value in (cell.p_value, cell.p_holm)),
        )
        for cell in (() if tests is None else tests.cells)
    ]
    return Table.of_texts(result.title, LONG_PAIRED, rows)


def _table(result: RunResult, tests: PairedTests, subject: str, known: Metric, view: View) -> Table:
    found = {
        cell.detector: cell
        for cell in tests.cells
        if (cell.subject, cell.ood, cell.metric) == (subject, AVERAGE, known.name)
    }
    rows = []
    for label in view.rows(result, subject, known):
        if label in found:
            cell = found[label]
            interval = f"{cell.low:+.2f}, {cell.high:+.2f}"
            chances = (TableCell(f"{chance:.2g}") for chance in (cell.p_value, cell.p_holm))
            rows.append((label, (TableCell(f"{cell.difference:+.2f}", interval=interval), *chances)))
    better = "below 0 is better" if known.lower_is_better else "above 0 is better"
    said = [
        f"{better} than {tests.against}",
        f"[{100 * tests.level:g} % interval] of {tests.replicates:,} paired draws of the samples",
        f"p of one comparison, and p corrected (Holm) for the {len(found)} of this model, metric and average",
        "intervals are not corrected",
        *([] if len(rows) == len(found) else [f"{len(rows)} of {len(found)} comparisons shown"]),
    ]
    return Table(
        f"{known.title} {known.arrow} minus that of {tests.against} in percentage points, {subject}",
        ("score", "difference", "p", "p (Holm)"),
        tuple(rows),
        "; ".join(said),
        name=f"{known.name}-against-{tests.against}-{subject}",
    )
