"""ORA as its authors' programs compute it, beside the paper's definition.

Their released scripts take the mean of the class means of the *test* features as the centre; the version they
offered to OpenOOD takes that of the training features, and the mean of the angles. Angles over π and a mean
that counts the predicted class as 0 are factors, which no metric sees.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...benchmarks.facts import DetectorFacts
from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import TEST
from ...benchmarks.measure import measured_cells, subject_facts
from ...benchmarks.result import RunResult
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...detectors import ORA
from ...evaluation import Evaluation
from ..studies import RunStudy
from ._registry import Context, Need, Produced, experiment
from .class_count import FOLDERS

ROWS: Mapping[str, tuple[ORA, str]] = {
    "ORA": (ORA(), "the paper: largest angle, from the mean of the training features"),
    "ORA, balanced": (ORA(centre="balanced"), "largest angle, from the mean of the class means"),
    "ORA, balanced on test": (
        ORA(centre="balanced"),
        "the released scripts: largest angle, from the mean of the class means of the test features",
    ),
    "ORA, mean": (ORA(aggregate="mean"), "mean angle, from the mean of the training features"),
    "ORA, OpenOOD": (
        ORA(centre="balanced", aggregate="mean"),
        "offered to OpenOOD: mean angle, from the mean of the class means",
    ),
}
ON_TEST = "ORA, balanced on test"


@experiment("upstream", "ORA as its authors' programs compute it", *(Need(folder) for folder in FOLDERS))
def upstream(context: Context) -> Produced:
    subjects = [from_folder(context.root / folder) for folder in FOLDERS]
    cells = []
    for subject in subjects:
        context.say(f"upstream: {subject.name}")
        found = Evaluation.of(_scores(subject), known=TEST)
        cells += [cell for label in ROWS for cell in measured_cells(subject.name, label, found)]
    result = RunResult(
        title="ORA as its authors' programs compute it",
        command="theodolite reproduce upstream",
        cells=tuple(cells),
        subjects={subject.name: subject_facts(subject) for subject in subjects},
        detectors={label: DetectorFacts(formula=formula) for label, (_, formula) in ROWS.items()},
    )
    return {"upstream": RunStudy(result)}


def _scores(subject: Subject) -> dict[str, dict[str, FloatArray]]:
    found: dict[str, dict[str, FloatArray]] = {}
    for label, (ora, _) in ROWS.items():
        ora.fit(subject.test if label == ON_TEST else subject.fit, head=subject.head)
        found[label] = {
            name: np.concatenate([ora.score(features.double().numpy()) for features, _, _ in rows])
            for name, rows in subject.judged.items()
        }
    return found
