"""How well an order of scores predicts the true one: agreement, regret, the criterion, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ...benchmarks.measure import rounded
from ...benchmarks.trials import Order
from ...detectors import RECOMMENDED, detector_record
from ...detectors.spec import parse_spec
from ...evaluation.ranks import kendall, spearman
from ...report.tables import Table, printed

# Spearman's correlation above this, on most of the networks.
ENOUGH = 0.5


@dataclass(frozen=True)
class Agreement:
    """Advice from one kind of rows beside the truth on one network: true FPR95 and regrets in points."""

    subject: str
    rows: str
    scores: int
    spearman: float | None
    kendall: float | None
    advised: str
    advised_fpr95: float
    best: str
    best_fpr95: float
    regret: float
    recommended_regret: float
    random_regret: float


@dataclass(frozen=True)
class Criterion:
    """Means over the networks, and on how many of them the orders are correlated enough."""

    rows: str
    regret: float
    recommended_regret: float
    random_regret: float
    correlated: int
    subjects: int
    holds: bool


@dataclass(frozen=True)
class Figure:
    """One score: true FPR95 and AUROC, and FPR95 in every fold of leave-class-out, by kind of rows."""

    score: str
    fpr95: float
    auroc: float
    left_out: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Setting:
    """True FPR95 of the setting that leave-class-out chooses of a grid, of the default and of the best."""

    subject: str
    grid: str
    chosen: str
    chosen_fpr95: float
    default_fpr95: float
    best_fpr95: float


def agreement(name: str, rows: str, advised: Order, true: Order, specs: Set[str]) -> Agreement:
    """How well one order predicts the other, over the ``specs`` that are in both."""
    said = {row.spec: row for row in advised.ranked if row.spec in specs}
    shared = [row for row in true.ranked if row.spec in said]
    truth = {row.spec: row.mean_fpr95 for row in shared}
    best = shared[0]
    choice = next(row for row in said.values() if row.spec in truth)
    rates = np.array(list(truth.values()))
    predicted = np.array([said[spec].mean_fpr95 for spec in truth])
    return Agreement(
        subject=name,
        rows=rows,
        scores=len(shared),
        spearman=_rounded(spearman(predicted, rates)),
        kendall=_rounded(kendall(predicted, rates)),
        advised=choice.label,
        advised_fpr95=truth[choice.spec],
        best=best.label,
        best_fpr95=best.mean_fpr95,
        regret=rounded(truth[choice.spec] - best.mean_fpr95),
        recommended_regret=rounded(truth[RECOMMENDED] - best.mean_fpr95),
        random_regret=rounded(rates.mean() - best.mean_fpr95),
    )


def criterion(agreements: Sequence[Agreement], rows: str) -> Criterion:
    """Whether the advice from one kind of rows is worth having."""
    mine = [part for part in agreements if part.rows == rows]
    regret = rounded(np.mean([part.regret for part in mine]))
    recommended = rounded(np.mean([part.recommended_regret for part in mine]))
    correlated = sum(part.spearman is not None and part.spearman > ENOUGH for part in mine)
    return Criterion(
        rows=rows,
        regret=regret,
        recommended_regret=recommended,
        random_regret=rounded(np.mean([part.random_regret for part in mine])),
        correlated=correlated,
        subjects=len(mine),
        holds=regret <= recommended and 2 * correlated > len(mine),
    )


def figures_of(true: Order, advised: Mapping[str, Order], specs: Set[str]) -> tuple[Figure, ...]:
    """Every score in its true order; one that leave-class-out could not rank has no folds."""
    folds = {rows: {row.spec: row.fpr95 for row in order.ranked} for rows, order in advised.items()}
    return tuple(
        Figure(
            row.label,
            row.mean_fpr95,
            row.mean_auroc,
            {rows: said.get(row.spec, ()) for rows, said in folds.items()},
        )
        for row in true.ranked
        if row.spec in specs
    )


def setting(name: str, grid: str, texts: Sequence[str], advised: Order, true: Order) -> Setting:
    """Of a grid, whose first setting is the default; one that is refused on either side cannot be chosen."""
    truth = {row.spec: row.mean_fpr95 for row in true.ranked}
    specs = [parse_spec(text).text for text in texts]
    able = [row.spec for row in advised.ranked if row.spec in specs and row.spec in truth]
    return Setting(
        subject=name,
        grid=grid,
        chosen=able[0],
        chosen_fpr95=truth[able[0]],
        default_fpr95=truth[specs[0]],
        best_fpr95=min(truth[spec] for spec in able),
    )


# ---------------------------------------------------------------------- tables


def criterion_table(criteria: Sequence[Criterion]) -> Table:
    recommended = detector_record(RECOMMENDED).title
    header = ["rows", "regret of advice", recommended, "at random", f"Spearman > {ENOUGH:g}", "holds"]
    rows = [
        [
            row.rows,
            *map(printed, (row.regret, row.recommended_regret, row.random_regret)),
            f"{row.correlated} of {row.subjects}",
            "yes" if row.holds else "NO",
        ]
        for row in criteria
    ]
    return Table.of_texts("The criterion: mean regret in points of FPR95", header, rows)


def agreement_table(agreements: Sequence[Agreement]) -> Table:
    header = [
        *("network", "rows", "Spearman", "Kendall", "advised", "best"),
        *("regret", f"regret of {detector_record(RECOMMENDED).title}", "regret at random"),
    ]
    rows = [
        [
            part.subject,
            part.rows,
            *("none" if value is None else printed(value) for value in (part.spearman, part.kendall)),
            f"{part.advised} ({printed(part.advised_fpr95)})",
            f"{part.best} ({printed(part.best_fpr95)})",
            *map(printed, (part.regret, part.recommended_regret, part.random_regret)),
        ]
        for part in agreements
    ]
    return Table.of_texts("Advice beside the truth on each network (true FPR95)", header, rows)


def settings_table(settings: Sequence[Setting]) -> Table:
    rows = [[part.grid, part.subject, part.chosen, *map(printed, _rates(part))] for part in settings]
    for grid in dict.fromkeys(part.grid for part in settings):
        means = np.mean([_rates(part) for part in settings if part.grid == grid], axis=0)
        rows.append([grid, "mean", "", *map(printed, means)])
    header = ["grid", "network", "chosen", "chosen FPR95", "default", "best"]
    return Table.of_texts("Settings chosen by leave-class-out on unseen rows (true FPR95)", header, rows)


def figure_tables(figures: Mapping[str, Sequence[Figure]]) -> list[Table]:
    """A table a network: the truth, and leave-class-out as mean ± deviation over folds."""
    return [
        Table.of_texts(
            f"{name}: true FPR95 and AUROC, and FPR95 of leave-class-out, in %",
            ["score", "FPR95", "AUROC", *(f"left out, {kind}" for kind in rows[0].left_out)],
            [
                [row.score, printed(row.fpr95), printed(row.auroc), *map(_spread, row.left_out.values())]
                for row in rows
            ],
        )
        for name, rows in figures.items()
    ]


def _rates(part: Setting) -> tuple[float, float, float]:
    return part.chosen_fpr95, part.default_fpr95, part.best_fpr95


def _spread(folds: Sequence[float]) -> str:
    return f"{np.mean(folds):.2f} ± {np.std(folds, ddof=1):.2f}" if folds else "refused"


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)
