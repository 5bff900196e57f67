"""Which score to recommend: chosen on two data sets, reported on a third that had no say.

The rule, which the third has no part in: average FPR95 over the OOD sets of each development set, then
over the two. Candidates whose difference to the best is within its paired bootstrap interval are tied: FPR95
of a thousand outliers is that noisy. Of the tied the one with the highest AUROC, averaged alike, wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...benchmarks.protocols import TEST
from ...benchmarks.results import FORMAT, Intervals, cells_of, entry_facts, model_facts, versions
from ...benchmarks.runner import run
from ...benchmarks.subject import Subject, from_folder
from ...core.arrays import FloatArray
from ...detectors import detector_record
from ...detectors.spec import parse_entries
from ...evaluation.metrics import auroc, fpr_at_tpr
from ._registry import Context, Need, Produced, experiment
from .candidates import FORMULAS, REGISTERED, candidate_scores
from .mnist import DATA, OE_WEIGHTS, convnet_subject, lenet_subject

DEVELOPMENT, HELD_OUT = "cifar10-densenet", "imagenet-lite0"
REPLICATES = 200
_COMPARED = ("ora", "fdbd", "ora?metric=mahalanobis&aggregate=mean", "relative-energy")
_SHAPED = ("react:90", "react:80", "ash-s:90", "ash-s:35", "scale:85", "scale:90")

Found = Mapping[str, Mapping[str, FloatArray]]


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
        scores[subject.name] = candidate_scores(subject, context.cache / "scores")
    chosen = choose({subject.name: scores[subject.name] for subject in development}, context.seed)
    shaped = run(
        [*development, held_out],
        parse_entries(_COMPARED, shapings=_SHAPED),
        title="The recommended score, ORA and fDBD on shaped features",
        command="theodolite reproduce recommendation",
        cache=context.cache / "scores",
    ).results
    context.say("recommendation: an ensemble of two models")
    ensemble = run(
        [convnet_subject(context), lenet_subject(context)],
        parse_entries(_COMPARED),
        title="The recommended score, ORA and fDBD: two models and their sum",
        command="theodolite reproduce recommendation",
        ensemble=True,
        cache=context.cache / "scores",
    ).results
    return {
        "recommendation": _results([*development, held_out], scores, chosen, context.seed),
        "recommendation-shaping": shaped,
        "recommendation-ensemble": ensemble,
    }


def choose(development: Mapping[str, Found], seed: int) -> list[dict[str, Any]]:
    """All candidates by the rule, the winner first among the tied."""
    labels = list(next(iter(development.values())))
    fpr = {label: _average(development, label, fpr_at_tpr) for label in labels}
    area = {label: _average(development, label, auroc) for label in labels}
    eligible = [label for label in labels if label not in FORMULAS or FORMULAS[label].eligible]
    best = min(eligible, key=fpr.__getitem__)
    draws = _resampled_fpr(development, labels, np.random.default_rng(seed))
    rows: list[dict[str, Any]] = []
    for label in labels:
        low, high = np.quantile(draws[label] - draws[best], [0.025, 0.975])
        rows.append(
            {
                "candidate": label,
                "fpr95": round(100 * fpr[label], 4),
                "auroc": round(100 * area[label], 4),
                "behind_best": [round(100 * float(low), 4), round(100 * float(high), 4)],
                "eligible": label in eligible,
                "tied": label in eligible and bool(low <= 0),
                "chosen": False,
            }
        )
    winner = max((row for row in rows if row["tied"]), key=lambda row: row["auroc"])
    winner["chosen"] = True
    return sorted(rows, key=lambda row: (not row["chosen"], not row["tied"], row["fpr95"]))


def _average(development: Mapping[str, Found], label: str, metric: Any) -> float:
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
                known = sets[label][TEST][drawn[TEST]]
                place = len(known) - int(np.ceil(0.95 * len(known) - 1e-9))
                threshold = np.partition(known, place)[place]
                rates = [np.mean(sets[label][name][drawn[name]] >= threshold) for name in names]
                totals[label][replicate] += np.mean(rates) / len(development)
    return totals


def _results(
    subjects: list[Subject], scores: Mapping[str, Found], chosen: list[dict[str, Any]], seed: int
) -> dict[str, Any]:
    entries = {entry.label: entry_facts(entry) for entry in parse_entries(REGISTERED)}
    intervals = Intervals(REPLICATES, seed=seed)
    return {
        "format": FORMAT,
        "title": "Candidates for the recommended score",
        "command": "theodolite reproduce recommendation",
        "protocol": None,
        "versions": versions(),
        "seeds": {"bootstrap": seed},
        "bootstrap": {"replicates": REPLICATES, "level": intervals.level},
        "models": {subject.name: model_facts(subject) for subject in subjects},
        "entries": {**entries, **{label: {"formula": label} for label in FORMULAS}},
        "development": [subject.name for subject in subjects[:-1]],
        "held_out": subjects[-1].name,
        "choice": chosen,
        "recommended": detector_record("relative-energy").title,
        "cells": [
            cell
            for subject in subjects
            for label, sets in scores[subject.name].items()
            for cell in cells_of(subject.name, label, sets, intervals=intervals)
        ],
        "refused": {},
    }
