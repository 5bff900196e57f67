"""fDBD, ORA and what lies between them: by the law of sines d/‖z − μ‖ = sin θ / sin α.

θ, d and α are taken from the deciding triangle of each sample: the boundary with the largest angle. α is the
angle at the projection, so sin α = h / ‖z_db − μ‖. The paper finds sin α alike for ID and OOD, and drops it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...benchmarks.feature_sets import FeatureSet
from ...benchmarks.protocols import TEST
from ...benchmarks.results import FORMAT, cells_of, model_facts, versions
from ...benchmarks.subject import Subject, from_folder
from ...core.arrays import FloatArray
from ...detectors import ORA, create, fit_many
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
    return {f"angles-{folder}": _compare(context, from_folder(context.root / folder)) for folder in FOLDERS}


def _compare(context: Context, subject: Subject) -> dict[str, Any]:
    context.say(f"angles: {subject.name}")
    scores = angle_scores(subject)
    return {
        "format": FORMAT,
        "title": f"fDBD, ORA and sin α on {subject.name}",
        "command": "theodolite reproduce angles",
        "protocol": None,
        "versions": versions(),
        "seeds": {},
        "models": {subject.name: model_facts(subject)},
        "entries": {label: {"formula": formula} for label, formula in ROWS.items()},
        "cells": [cell for label, sets in scores.items() for cell in cells_of(subject.name, label, sets)],
        "refused": {},
        "distributions": {
            label: {
                name: {"mean": round(float(np.mean(part)), 6), "std": round(float(np.std(part)), 6)}
                for name, part in sets.items()
            }
            for label, sets in scores.items()
        },
    }


def angle_scores(subject: Subject) -> dict[str, dict[str, FloatArray]]:
    """The five scores on held-out ID data and every OOD set; one pass each."""
    ora, fdbd = ORA(), create("fdbd")
    fit_many([ora, fdbd], subject.fit, head=subject.head)
    found: dict[str, dict[str, FloatArray]] = {label: {} for label in ROWS}
    for name, rows in {TEST: subject.test, **subject.ood}.items():
        parts = [_of_batch(ora, fdbd, batch) for batch in _features(rows)]
        for label in ROWS:
            found[label][name] = np.concatenate([part[label] for part in parts])
    return found


def _of_batch(ora: ORA, fdbd: Any, features: FloatArray) -> dict[str, FloatArray]:
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


def _features(rows: FeatureSet) -> Any:
    for features, _, _ in rows:
        yield features.double().numpy()
