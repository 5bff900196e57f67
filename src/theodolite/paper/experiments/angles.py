"""fDBD, ORA and what lies between them: by the law of sines d/‖z − μ‖ = sin θ / sin α.

θ, d and α are taken from the deciding triangle of each sample: the boundary with the largest angle. α is the
angle at the projection, so sin α = h / ‖z_db − μ‖. The paper finds sin α alike for ID and OOD, and drops it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...benchmarks.facts import DetectorFacts
from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import TEST, FeatureSet
from ...benchmarks.measure import measured_cells, subject_facts
from ...benchmarks.result import RunResult
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...detectors import FDBD, ORA, fit_many
from ...evaluation import Evaluation
from ..studies import RunStudy, Spread
from ._registry import Context, Need, Produced, experiment
from .feature_folders import FOLDERS

ROWS = {
    "sin α": "h/‖z_db − μ‖ of the deciding triangle",
    "sin θ": "sine of the largest angle",
    "sin θ/sin α": "d/‖z − μ‖ of the deciding triangle",
    "ORA (θ)": "the largest angle",
    "fDBD": "mean over all classes of sin θ/sin α",
}


@experiment("angles", "fDBD, ORA and sin α", *(Need(folder) for folder in FOLDERS))
def angles(context: Context) -> Produced:
    return {f"angles-{folder}": compared(context, folder, "angles") for folder in FOLDERS}


def compared(context: Context, folder: str, name: str) -> RunStudy:
    """The five scores on one feature folder, and how they are spread, as the experiment ``name`` has it."""
    context.say(f"{name}: {folder}")
    subject = from_folder(context.root / folder)
    scores = angle_scores(subject)
    found = Evaluation.of(scores, known=TEST)
    result = RunResult(
        title=f"fDBD, ORA and sin α on {subject.name}",
        command=f"theodolite reproduce {name}",
        cells=tuple(cell for label in scores for cell in measured_cells(subject.name, label, found)),
        subjects={subject.name: subject_facts(subject)},
        detectors={label: DetectorFacts(formula=formula) for label, formula in ROWS.items()},
    )
    distributions = {
        label: {
            name: Spread(round(float(np.mean(part)), 6), round(float(np.std(part)), 6))
            for name, part in sets.items()
        }
        for label, sets in scores.items()
    }
    return RunStudy(result, distributions=distributions)


def angle_scores(subject: Subject) -> dict[str, dict[str, FloatArray]]:
    """The five scores on held-out ID data and every OOD set; one pass each."""
    ora, fdbd = ORA(), FDBD()
    fit_many([ora, fdbd], subject.fit, head=subject.head)
    found: dict[str, dict[str, FloatArray]] = {label: {} for label in ROWS}
    for name, rows in subject.judged.items():
        parts = [_of_batch(ora, fdbd, batch) for batch in _features(rows)]
        for label in ROWS:
            found[label][name] = np.concatenate([part[label] for part in parts])
    return found


def _of_batch(ora: ORA, fdbd: FDBD, features: FloatArray) -> dict[str, FloatArray]:
    sight = ora.sight(features)
    sine = np.sin(sight.angle)
    # A sample on top of the centre's projection has no triangle; its angle is 0 and so is its sine.
    to_projection = np.hypot(sight.height, sight.centre_distance)
    sine_alpha = np.divide(
        sight.height, to_projection, out=np.zeros_like(to_projection), where=to_projection > 0
    )
    ratio = np.divide(sine, sine_alpha, out=np.zeros_like(sine), where=sine_alpha > 0)
    values = (sine_alpha, sine, ratio, sight.angle, fdbd.score(features))
    return dict(zip(ROWS, (np.asarray(value, dtype=np.float64) for value in values), strict=True))


def _features(rows: FeatureSet) -> Iterator[FloatArray]:
    for features, _, _ in rows:
        yield features.double().numpy()
