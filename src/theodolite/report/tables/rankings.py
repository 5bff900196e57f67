"""The table of a choice: every candidate in its order, mean ± deviation over the folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...benchmarks.ranking import Ranking
from .table import Table, TableCell, printed


def ranking_table(ranking: Ranking) -> Table:
    """A row a candidate, as the text that ``--detector`` takes; the first is the chosen one."""
    rows = tuple(
        (row.spec, (TableCell(_spread(row.fpr95), 1 if place == 0 else 0), TableCell(_spread(row.auroc))))
        for place, row in enumerate(ranking.ranked)
    )
    title = f"{ranking.subject}, {ranking.method}, in %"
    legend = f"mean ± deviation over {ranking.folds} folds"
    return Table(title, ("candidate", "FPR95 ↓", "AUROC ↑"), rows, legend)


def _spread(folds: Sequence[float]) -> str:
    mean = printed(float(np.mean(folds)))
    return f"{mean} ± {printed(float(np.std(folds, ddof=1)))}" if len(folds) > 1 else mean
