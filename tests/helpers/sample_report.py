"""A small run to report on: three scores with their own traps, two OOD sets, samples with pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image

import theodolite as th
from synthetic import make_problem
from theodolite.benchmarks.cells import Cell, PublishedValue
from theodolite.benchmarks.facts import SubjectFacts
from theodolite.benchmarks.feature_sets import TEST
from theodolite.benchmarks.measure import Intervals, result_of_scores
from theodolite.benchmarks.result import RunResult
from theodolite.benchmarks.telling import TellingSample, telling_samples
from theodolite.core.arrays import FloatArray, as_scores
from theodolite.evaluation import Evaluation
from theodolite.report.page import Page

SUBJECT = "made"
PUBLISHED = {
    ("ORA", "blur", "fpr95"): "12.34",
    ("ORA", "average", "auroc"): "98.70",
    ("coarse", "blur", "fpr95"): "5.00",
}


def make_scores() -> dict[str, dict[str, FloatArray]]:
    """ORA is float32; "coarse" is full of ties; "fine" differs beyond float32 only.

    96 samples in the second set: shares such as 3/96 = 3.125 % lie exactly between two printed numbers.
    """
    problem = make_problem()
    ora = th.ORA().fit(problem.train, problem.labels, head=problem.head)
    rows = {TEST: problem.test, "blur": problem.ood, "noise": (problem.ood + problem.test)[:96]}
    plain = {name: as_scores(ora.score(part), "scores") for name, part in rows.items()}
    return {
        "ORA": plain,
        "coarse": {name: np.round(values, 1) for name, values in plain.items()},
        "fine": {name: 1 - 1e-9 * (2 - values) for name, values in plain.items()},
    }


def make_evaluation() -> Evaluation:
    return Evaluation.of(make_scores(), known=TEST)


def make_samples() -> list[TellingSample]:
    """Four ID and three OOD samples with pictures, and what they were taken for."""
    problem, scores = make_problem(), make_scores()["ORA"]
    ora = th.ORA().fit(problem.train, problem.labels, head=problem.head)

    def picture(index: int) -> Image.Image:
        return Image.new("RGB", (300, 200), (index % 256, 90, 120))

    suspicious = telling_samples(
        ora,
        problem.test,
        scores[TEST],
        lowest=True,
        count=4,
        data_set=TEST,
        class_name="class {}".format,
        labels=problem.labels[:120],
        picture=picture,
    )
    deceptive = telling_samples(
        ora, problem.ood, scores["blur"], lowest=False, count=3, data_set="blur", picture=picture
    )
    return suspicious + deceptive


def with_published(cell: Cell) -> Cell:
    printed = PUBLISHED.get((cell.detector, cell.ood, cell.metric))
    if printed is None:
        return cell
    return replace(cell, published=(PublishedValue(printed, "table", cell.detector, cell.ood),))


def make_result(intervals: Intervals | None = None) -> RunResult:
    plain = result_of_scores(
        make_scores(), title="A small run", subject=SUBJECT, command="theodolite bench", intervals=intervals
    )
    facts = SubjectFacts(
        backbone=None,
        classes=6,
        width=48,
        accuracy=91.25,
        samples={"id_fit": 1300, TEST: 120, "blur": 120, "noise": 96},
        digests={"head": "0123abcd"},
    )
    return replace(
        plain,
        cells=tuple(with_published(cell) for cell in plain.cells),
        subjects={SUBJECT: facts},
        telling={SUBJECT: make_samples()},
    )


def make_page(result: RunResult | None = None) -> Page:
    return Page(
        result=result or make_result(),
        subject=SUBJECT,
        id_name="made ID",
        summary=["Made features, three scores."],
        provenance={"seed": "0"},
    )
