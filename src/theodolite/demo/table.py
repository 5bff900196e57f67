"""The demo's table: a few well-known scores, the best average on top, the recommended row marked."""

from __future__ import annotations

from ..benchmarks import Cell, RunResult
from ..benchmarks.feature_sets import AVERAGE
from ..detectors import RECOMMENDED
from ..detectors.spec import parse_spec
from ..evaluation import Metric
from ..evaluation import metric as metric_called
from ..report.tables import Table, View
from ..report.tables.results import marked_rows
from .lesson import MEAN_ORA

# The recommended score, ORA both ways, and the best known of the others; the report has every score.
SHOWN = (RECOMMENDED, "ora", MEAN_ORA, "msp", "maxlogit", "energy", "mds", "knn", "vim", "fdbd", "nci")
MARK = " ◂"


def demo_table(result: RunResult, subject: str) -> Table:
    """Averages first, of FPR95, which is the order, and of AUROC; then the FPR95 of every OOD set."""
    fpr95, auroc = (metric_called(name) for name in ("fpr95", "auroc"))
    names = {parse_spec(text).label for text in SHOWN}
    labels = [label for label in View(sort=AVERAGE).rows(result, subject, fpr95) if label in names]
    columns: list[tuple[str, Metric]] = [(AVERAGE, fpr95), (AVERAGE, auroc)]
    columns += [(ood, fpr95) for ood in result.ood_names(subject)]
    cells = [
        [cells[0] for _, cells in marked_rows(labels, [_cells(result, subject, labels, ood, known)], known)]
        for ood, known in columns
    ]
    ours, every = parse_spec(RECOMMENDED).label, len(result.detector_names(subject))
    averages = f"{fpr95.title} {fpr95.arrow} and {auroc.title} {auroc.arrow}"
    return Table(
        f"Average {averages} in %, then {fpr95.title} of each OOD set",
        ("score", fpr95.title, auroc.title, *(ood for ood, _ in columns[2:])),
        tuple(
            (label + (MARK if label == ours else ""), tuple(column[row] for column in cells))
            for row, label in enumerate(labels)
        ),
        f"{MARK.strip()} recommended; {len(labels)} of {every} scores, all of them in the report",
    )


def _cells(result: RunResult, subject: str, labels: list[str], ood: str, known: Metric) -> list[Cell]:
    return [result.cell(subject, label, ood, known.name) for label in labels]
