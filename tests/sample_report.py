"""A small run to report on: three scores with their own traps, two OOD sets, cards with thumbnails."""

from __future__ import annotations

import numpy as np
from PIL import Image

import theodolite as th
from synthetic import make_problem
from theodolite.core.arrays import as_scores
from theodolite.evaluation.evaluation import Evaluation
from theodolite.evaluation.metrics import evaluate
from theodolite.report.page import ReportData
from theodolite.report.samples import sample_cards

PUBLISHED = {
    ("ORA", "blur", "fpr95"): 12.34,
    ("ORA", "average", "auroc"): 98.7,
    ("coarse", "blur", "fpr95"): 5.0,
}


def make_evaluation() -> Evaluation:
    """ORA is float32; "coarse" is full of ties; "fine" differs beyond float32 only.

    96 samples in the second set: shares such as 3/96 = 3.125 % lie exactly between two printed numbers.
    """
    problem = make_problem()
    ora = th.ORA().fit(problem.train, problem.labels, head=problem.head)
    rows = {"id": problem.test, "blur": problem.ood, "noise": (problem.ood + problem.test)[:96]}
    plain = {name: as_scores(ora.score(part), "scores") for name, part in rows.items()}
    scores = {
        "ORA": plain,
        "coarse": {name: np.round(values, 1) for name, values in plain.items()},
        "fine": {name: 1 - 1e-9 * (2 - values) for name, values in plain.items()},
    }
    sets = ("blur", "noise")
    return Evaluation(
        id_scores={name: parts["id"] for name, parts in scores.items()},
        ood_scores={name: {ood: parts[ood] for ood in sets} for name, parts in scores.items()},
        metrics={
            name: {ood: evaluate(parts["id"], parts[ood]) for ood in sets} for name, parts in scores.items()
        },
    )


def make_report(digits: int = 2) -> ReportData:
    problem = make_problem()
    evaluation = make_evaluation()
    ora = th.ORA().fit(problem.train, problem.labels, head=problem.head)

    def picture(index: int) -> Image.Image:
        return Image.new("RGB", (300, 200), (index % 256, 90, 120))

    return ReportData(
        title="A small run",
        summary=["Made features, three scores."],
        evaluation=evaluation,
        accuracy=0.9125,
        id_name="made ID",
        published=PUBLISHED,
        suspicious_id=sample_cards(
            ora,
            problem.test,
            evaluation.id_scores["ORA"],
            lowest=True,
            count=4,
            data_set="made ID",
            class_name="class {}".format,
            labels=problem.labels[:120],
            picture=picture,
        ),
        deceptive_ood=sample_cards(
            ora,
            problem.ood,
            evaluation.ood_scores["ORA"]["blur"],
            lowest=False,
            count=3,
            data_set="blur",
            picture=picture,
        ),
        environment={"Python": "3"},
        provenance={"seed": "0"},
        command="theodolite demo",
        highlight="ORA",
        digits=digits,
    )
