"""The paper's figures, drawn from the data at hand: each gives figures by the name of their file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from ..benchmarks.feature_sets import FeatureSet
from ..benchmarks.protocols import TEST
from ..benchmarks.runner import ensemble_scores
from ..benchmarks.scoring import Scorer
from ..benchmarks.subject import Subject, from_folder
from ..core.arrays import FloatArray, as_scores
from ..detectors import ORA
from ..detectors.spec import parse_entries
from ..evaluation.evaluation import Evaluation
from ..evaluation.metrics import evaluate
from ..report import figures
from .experiments import Context, Need
from .experiments.angles import angle_scores
from .experiments.mnist import DATA, OE_WEIGHTS, convnet_subject, lenet_subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CIFAR, IMAGENET = "cifar10-densenet", "imagenet-lite0"
Drawn: TypeAlias = "dict[str, Figure]"


def as_evaluation(scores: Mapping[str, Mapping[str, FloatArray]]) -> Evaluation:
    """Scores by label and set, measured."""
    known = {label: sets[TEST] for label, sets in scores.items()}
    strange = {
        label: {name: rows for name, rows in sets.items() if name != TEST} for label, sets in scores.items()
    }
    metrics = {
        label: {name: evaluate(known[label], rows) for name, rows in sets.items()}
        for label, sets in strange.items()
    }
    return Evaluation(known, strange, metrics)


def _ora_scores(context: Context, subject: Subject) -> Mapping[str, Mapping[str, FloatArray]]:
    return Scorer(subject, parse_entries(["ora"]), cache=context.cache / "scores").run().values


def _histograms(folder: str) -> Callable[[Context], Drawn]:
    def draw(context: Context) -> Drawn:
        evaluation = as_evaluation(_ora_scores(context, from_folder(context.root / folder)))
        title = f"ORA (radians) on {folder}"
        return {f"figure-ora-{folder}": figures.score_histograms(evaluation, title=title)}

    return draw


def _sines(*rows: str) -> Callable[[Context], Drawn]:
    def draw(context: Context) -> Drawn:
        drawn = {}
        for folder in (CIFAR, IMAGENET):
            evaluation = as_evaluation(angle_scores(from_folder(context.root / folder)))
            drawn[f"figure-{'sine' if len(rows) == 1 else 'sines'}-{folder}"] = figures.score_histograms(
                evaluation, detectors=rows, title=f"The law of sines on {folder}"
            )
        return drawn

    return draw


def _teaser(context: Context) -> Drawn:
    """The deciding triangles of the median ID and the median OOD sample."""
    subject = from_folder(context.root / CIFAR)
    ora = ORA().fit(subject.fit, head=subject.head)
    views = []
    for name, rows in {"ID": subject.test, **subject.ood}.items():
        views.append(_median_triangle(ora, name, rows))
    return {"figure-triangles": figures.triangles(views)}


def _median_triangle(ora: ORA, name: str, rows: FeatureSet) -> figures.TriangleView:
    features = torch.cat([batch for batch, _, _ in rows])
    scores = as_scores(ora.score(features), "scores")
    middle = int(np.argsort(scores, kind="stable")[len(scores) // 2])
    seen = ora.sight(features[middle : middle + 1])
    return figures.TriangleView(
        title=f"{name}: class {int(seen.predicted[0])} against {int(seen.furthest[0])}",
        angle=float(seen.angle[0]),
        distance=float(seen.distance[0]),
        centre_distance=float(seen.centre_distance[0]),
        height=float(seen.height[0]),
    )


def _ensemble(context: Context) -> Drawn:
    """The better of two models, and their sum."""
    subjects = [convnet_subject(context), lenet_subject(context)]
    members = [_ora_scores(context, subject) for subject in subjects]
    single, summed = f"ORA, {subjects[0].name}", "ORA, both models"
    both = {single: members[0]["ORA"], summed: ensemble_scores(subjects, members)["ORA"]}
    title = "MNIST against what neither network saw"
    drawn = figures.ensemble_histograms(as_evaluation(both), single=single, ensemble=summed, title=title)
    return {"figure-ensemble": drawn}


DRAWINGS: Mapping[str, tuple[tuple[Need, ...], Callable[[Context], Drawn]]] = {
    "fig:teaser": ((Need(CIFAR),), _teaser),
    "fig:sine": ((Need(CIFAR), Need(IMAGENET)), _sines("sin α")),
    "fig:histograms_angles": ((Need(CIFAR), Need(IMAGENET)), _sines("sin α", "sin θ", "sin θ/sin α")),
    "fig:model_ensemble_hist": ((*DATA, Need(OE_WEIGHTS)), _ensemble),
    "fig:image-grid_cifar": ((Need(CIFAR),), _histograms(CIFAR)),
    "fig:image-grid_imagenet": ((Need(IMAGENET),), _histograms(IMAGENET)),
}
