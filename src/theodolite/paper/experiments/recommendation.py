"""Which score to recommend: chosen on two data sets, reported on a third that had no say.

The rule, which the third has no part in: average FPR95 over the OOD sets of each development set, then
over the two. Candidates whose difference to the best is within its paired bootstrap interval are tied: FPR95
of a thousand outliers is that noisy. Of the tied the one with the highest AUROC, averaged alike, wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ...benchmarks.facts import DetectorFacts
from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import TEST
from ...benchmarks.measure import Intervals, detector_facts, measured_cells, subject_facts
from ...benchmarks.result import RunResult
from ...benchmarks.runner import run
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...detectors.spec import parse_specs
from ...evaluation import Evaluation, auroc, fpr_at_tpr, threshold_at_tpr
from ..studies import Candidate, Choice, RunStudy
from ._registry import Context, Need, Produced, experiment
from .candidates import FORMULAS, REGISTERED, candidate_scores
from .mnist import DATA, OE_WEIGHTS, convnet_subject, lenet_subject

DEVELOPMENT, HELD_OUT = "cifar10-densenet", "imagenet-lite0"
REPLICATES = 200
_COMPARED = ("ora", "fdbd", "ora?metric=mahalanobis&aggregate=mean", "relative-energy")
_SHAPED = ("react:90", "react:80", "ash-s:90", "ash-s:35", "scale:85", "scale:90")

Found: TypeAlias = Mapping[str, Mapping[str, FloatArray]]
Measure: TypeAlias = Callable[[FloatArray, FloatArray], float]


@experiment(
    "recommendation",
    "Which score to recommend: every candidate, chosen on two data sets, reported on a third",
    *DATA,
    Need(OE_WEIGHTS),
    Need(DEVELOPMENT),
    Need(HELD_OUT),
)
def recommendation(context: Context) -> Produced:
    development = [from_folder(context.root / DEVELOPMENT), convnet_subject(context)]
    held_out = from_folder(context.root / HELD_OUT)
    scores: dict[str, Found] = {}
    for subject in (*development, held_out):
        context.say(f"recommendation: every candidate on {subject.name}")
        scores[subject.name] = candidate_scores(subject, context.scores)
    chosen = choose({subject.name: scores[subject.name] for subject in development}, context.seed)
    shaped = run(
        [*development, held_out],
        parse_specs(_COMPARED, shapings=_SHAPED),
        title="The recommended score, ORA and fDBD on shaped features",
        command="theodolite reproduce recommendation",
        cache=context.scores,
    )
    context.say("recommendation: an ensemble of two models")
    ensemble = run(
        [convnet_subject(context), lenet_subject(context)],
        parse_specs(_COMPARED),
        title="The recommended score, ORA and fDBD: two models and their sum",
        command="theodolite reproduce recommendation",
        ensemble=True,
        cache=context.scores,
    )
    return {
        "recommendation": _study([*development, held_out], scores, chosen, context.seed),
        "recommendation-shaping": RunStudy(shaped),
        "recommendation-ensemble": RunStudy(ensemble),
    }


def choose(development: Mapping[str, Found], seed: int) -> list[Candidate]:
    """All candidates by the rule, the winner first among the tied."""
    labels = list(next(iter(development.values())))
    fpr = {label: _average(development, label, fpr_at_tpr) for label in labels}
    area = {label: _average(development, label, auroc) for label in labels}
    eligible = [label for label in labels if label not in FORMULAS or FORMULAS[label].eligible]
    best = min(eligible, key=fpr.__getitem__)
    draws = _resampled_fpr(development, labels, np.random.default_rng(seed))
    rows = []
    for label in labels:
        low, high = np.quantile(draws[label] - draws[best], [0.025, 0.975])
        rows.append(
            Candidate(
                label,
                fpr95=round(100 * fpr[label], 4),
                auroc=round(100 * area[label], 4),
                behind_best=(round(100 * float(low), 4), round(100 * float(high), 4)),
                eligible=label in eligible,
                tied=label in eligible and bool(low <= 0),
                chosen=False,
            )
        )
    winner = max((row for row in rows if row.tied), key=lambda row: row.auroc)
    rows[rows.index(winner)] = replace(winner, chosen=True)
    return sorted(rows, key=lambda row: (not row.chosen, not row.tied, row.fpr95))


def _average(
    development: Mapping[str, Found], label: str, metric: Callable[[FloatArray, FloatArray], float]
) -> float:
    """Over the OOD sets of each data set, then over the data sets."""
    return float(
        np.mean(
            [
                np.mean(
                    [metric(sets[label][TEST], rows) for name, rows in sets[label].items() if name != TEST]
                )
                for sets in development.values()
            ]
        )
    )


def _resampled_fpr(
    development: Mapping[str, Found], labels: list[str], rng: np.random.Generator
) -> dict[str, FloatArray]:
    """The averaged FPR95 under resampling; a replicate draws the same samples for every candidate."""
    totals: dict[str, FloatArray] = {label: np.zeros(REPLICATES) for label in labels}
    for sets in development.values():
        names = [name for name in sets[labels[0]] if name != TEST]
        for replicate in range(REPLICATES):
            drawn = {name: rng.integers(0, len(rows), len(rows)) for name, rows in sets[labels[0]].items()}
            for label in labels:
                threshold = threshold_at_tpr(sets[label][TEST][drawn[TEST]])
                rates = [np.mean(sets[label][name][drawn[name]] >= threshold) for name in names]
                totals[label][replicate] += np.mean(rates) / len(development)
    return totals


def _study(
    subjects: Sequence[Subject], scores: Mapping[str, Found], rows: Sequence[Candidate], seed: int
) -> RunStudy:
    facts = {spec.label: detector_facts(spec) for spec in parse_specs(REGISTERED)}
    intervals = Intervals(REPLICATES, seed=seed)
    found = {subject.name: Evaluation.of(scores[subject.name], known=TEST) for subject in subjects}
    result = RunResult(
        title="Candidates for the recommended score",
        command="theodolite reproduce recommendation",
        cells=tuple(
            cell
            for name, measured in found.items()
            for label in measured.metrics
            for cell in measured_cells(name, label, measured, intervals=intervals)
        ),
        subjects={subject.name: subject_facts(subject) for subject in subjects},
        detectors={**facts, **{label: DetectorFacts(formula=label) for label in FORMULAS}},
        seeds={"bootstrap": seed},
        bootstrap=intervals.bootstrap,
    )
    *development, held_out = (subject.name for subject in subjects)
    winner = next(row.candidate for row in rows if row.chosen)
    return RunStudy(result, choice=Choice(tuple(development), held_out, tuple(rows), winner))
