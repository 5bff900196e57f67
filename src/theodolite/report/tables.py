"""Tables for the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from ..detectors import RECOMMENDED, detector_record, list_detectors
from ..evaluation.evaluation import Evaluation


def evaluation_table(evaluation: Evaluation, *, title: str) -> Table:
    """FPR95 and AUROC in per cent for each detector and OOD set, and their averages; best in bold."""
    table = Table(title=title, title_justify="left", caption="FPR95 ↓/AUROC ↑, in %", caption_justify="left")
    table.add_column("score", no_wrap=True)
    columns = [*evaluation.ood_names, "average"]
    for column in columns:
        table.add_column(Text(column), justify="right", no_wrap=True)
    cells = {
        name: {column: _pair(evaluation, name, column) for column in columns} for name in evaluation.metrics
    }
    best = {
        column: (
            min(row[column][0] for row in cells.values()),
            max(row[column][1] for row in cells.values()),
        )
        for column in columns
    }
    for name, row in cells.items():
        table.add_row(name, *(_cell(row[column], best[column]) for column in columns))
    return table


def _pair(evaluation: Evaluation, name: str, column: str) -> tuple[float, float]:
    """(FPR95, AUROC) rounded as printed, so that printed ties are ties."""
    if column == "average":
        pair = evaluation.average(name, "fpr95"), evaluation.average(name, "auroc")
    else:
        cell = evaluation.metrics[name][column]
        pair = cell.fpr95, cell.auroc
    return round(100 * pair[0], 1), round(100 * pair[1], 1)


def _cell(pair: tuple[float, float], best: tuple[float, float]) -> Text:
    texts = (
        Text(f"{value:.1f}", style="bold" if value == top else "")
        for value, top in zip(pair, best, strict=True)
    )
    return Text("/").join(texts)


def detectors_table() -> Table:
    """Every score with its formula, what fitting it needs, and its paper."""
    table = Table(title="Scores (higher = more in-distribution)", title_justify="left", show_lines=True)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("formula")
    table.add_column("needs")
    table.add_column("paper")
    for name in list_detectors():
        record = detector_record(name)
        needs = ", ".join(record.detector().needs.names()) or "head only"
        shown = Text(f"{name}\n(recommended)" if name == RECOMMENDED else name)
        table.add_row(shown, Text(record.formula), needs, Text(f"{record.paper} ({record.year})"))
    return table
