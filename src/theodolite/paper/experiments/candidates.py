"""What was tried on the way to the recommended score: every candidate, with its formula.

θ_c are the relative angles to all boundaries of the predicted class in the Mahalanobis metric Σ, θᴱ_c the
same in the Euclidean one, l the logits and l̄ their mean. A candidate is eligible if it has no knob (the
weight of a sum of two scores and the bound of a clipped one are knobs) and if it is a matter of the
classifier alone: adding the same function to all logits, which changes no decision, must not change the
score. What only rescales another candidate has no row of its own: ‖l − l̄‖ is √(C − 1) times the deviation
of l.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...detectors import MDS, ORA, fit_many
from ...detectors.spec import parse_specs
from ...geometry.inner_product import Mahalanobis, spectrum

REGISTERED = (
    "ora",
    "fdbd",
    "ora?aggregate=mean",
    "ora?aggregate=rms",
    "ora?aggregate=mean&class_weights=variance",
    "ora?aggregate=mean&class_weights=accuracy",
    "ora?metric=mahalanobis",
    "ora?metric=mahalanobis&aggregate=mean",
    "ora?metric=mahalanobis&aggregate=rms",
    "ora?metric=mahalanobis&aggregate=min",
    "ora?metric=mahalanobis&aggregate=mean&class_weights=variance",
    "ora?metric=mahalanobis&aggregate=mean&class_weights=accuracy",
    "ora?metric=mahalanobis&centre=predicted",
    "ora?metric=mahalanobis&aggregate=mean&centre=predicted",
    "ora?metric=mahalanobis&centre=target",
    "ora?metric=mahalanobis&aggregate=mean&centre=target",
    "ora?metric=mahalanobis&centre=sum-classes",
    "ora?metric=mahalanobis&aggregate=mean&centre=sum-classes",
    "fdbd?metric=mahalanobis",
    "distance?metric=mahalanobis",
    "relative-energy",
)


@dataclass(frozen=True)
class Sight:
    """A batch of rows, seen in every way that a formula below needs."""

    logits: Tensor
    angles: Tensor  # in the metric Σ, falling along a row, the predicted class's 0 left out
    euclidean: Tensor  # the same in the Euclidean metric
    total: Tensor  # ‖z − μ‖_Σ
    within: Tensor  # the same with the covariance within classes
    plain: Tensor  # ‖z − μ‖


@dataclass(frozen=True)
class Formula:
    """A candidate that is not in the registry."""

    score: Callable[[Sight], Tensor]
    eligible: bool


def _top(sight: Sight, count: int) -> Tensor:
    return sight.angles[:, :count].mean(dim=1)


def _energy(sight: Sight) -> Tensor:
    return torch.logsumexp(sight.logits, dim=1)


def _evidence(sight: Sight) -> Tensor:
    return _energy(sight) - sight.logits.mean(dim=1)


def _margin(sight: Sight) -> Tensor:
    return sight.logits.amax(dim=1) - sight.logits.mean(dim=1)


FORMULAS: Mapping[str, Formula] = {
    "mean of the 3 largest θ_c": Formula(lambda s: _top(s, 3), eligible=False),
    "mean of the larger half of θ_c": Formula(
        lambda s: _top(s, max(1, s.angles.shape[1] // 2)), eligible=False
    ),
    "median θ_c": Formula(lambda s: s.angles[:, s.angles.shape[1] // 2], eligible=True),
    "geometric mean of θ_c": Formula(
        lambda s: s.angles.clamp_min(1e-12).log().mean(dim=1).exp(), eligible=True
    ),
    "mean sin θ_c": Formula(lambda s: s.angles.sin().mean(dim=1), eligible=True),
    "mean tan θ_c, clipped to ±10": Formula(
        lambda s: s.angles.tan().clamp(-10, 10).mean(dim=1), eligible=False
    ),
    "max θ_c + mean θ_c": Formula(lambda s: s.angles[:, 0] + s.angles.mean(dim=1), eligible=False),
    "max θ_c + max θᴱ_c": Formula(lambda s: s.angles[:, 0] + s.euclidean[:, 0], eligible=False),
    "mean θ_c + mean θᴱ_c": Formula(lambda s: s.angles.mean(dim=1) + s.euclidean.mean(dim=1), eligible=False),
    "energy / ‖z − μ‖_Σ": Formula(lambda s: _energy(s) / s.total, eligible=False),
    "energy / ‖z − μ‖_within": Formula(lambda s: _energy(s) / s.within, eligible=False),
    "energy / ‖z − μ‖": Formula(lambda s: _energy(s) / s.plain, eligible=False),
    "max l / ‖z − μ‖_Σ": Formula(lambda s: s.logits.amax(dim=1) / s.total, eligible=False),
    "(max l − l̄) / ‖z − μ‖_Σ": Formula(lambda s: _margin(s) / s.total, eligible=True),
    "(max l − l̄) / ‖z − μ‖_within": Formula(lambda s: _margin(s) / s.within, eligible=True),
    "(max l − l̄) / ‖z − μ‖": Formula(lambda s: _margin(s) / s.plain, eligible=True),
    "(max l − min l) / ‖z − μ‖_Σ": Formula(
        lambda s: (s.logits.amax(dim=1) - s.logits.amin(dim=1)) / s.total, eligible=True
    ),
    "std l / ‖z − μ‖_Σ": Formula(lambda s: s.logits.std(dim=1) / s.total, eligible=True),
    "log Σ exp(l − l̄) / ‖z − μ‖_within": Formula(lambda s: _evidence(s) / s.within, eligible=True),
    "log Σ exp(l − l̄) / ‖z − μ‖": Formula(lambda s: _evidence(s) / s.plain, eligible=True),
    "−‖z − μ‖_Σ": Formula(lambda s: -s.total, eligible=True),
    "−‖z − μ‖_within": Formula(lambda s: -s.within, eligible=True),
}


def candidate_scores(subject: Subject, cache: Path) -> dict[str, dict[str, FloatArray]]:
    """Scores of every candidate on held-out ID data and every OOD set; ``cache`` keeps registered ones."""
    found = Scorer(subject, parse_specs(REGISTERED), cache=cache).run().values
    look = _looker(subject)
    for name, rows in subject.judged.items():
        parts: dict[str, list[FloatArray]] = {label: [] for label in FORMULAS}
        for features, _, _ in rows:
            sight = look(features.float())
            for label, formula in FORMULAS.items():
                parts[label].append(formula.score(sight).double().numpy())
        for label, scores in parts.items():
            found.setdefault(label, {})[name] = np.concatenate(scores)
    return found


def _looker(subject: Subject) -> Callable[[Tensor], Sight]:
    ora, euclidean, mds = ORA(metric="mahalanobis"), ORA(), MDS()
    fit_many([ora, euclidean, mds], subject.fit, head=subject.head)
    mean, total = ora.centres[0], ora._stations.metric
    assert total is not None
    reference = mds.collect(subject.fit, head=subject.head)
    scatter = reference.statistics.moments.within
    assert scatter is not None
    within = Mahalanobis(spectrum(scatter / reference.count, reference.count))

    def look(features: Tensor) -> Sight:
        away = features - mean.to(features)
        return Sight(
            logits=subject.head(features),
            angles=_falling(ora.angles(features)),
            euclidean=_falling(euclidean.angles(features)),
            total=total.coordinates(away).norm(dim=1),
            within=within.coordinates(away).norm(dim=1),
            plain=away.norm(dim=1),
        )

    return look


def _falling(angles: Tensor) -> Tensor:
    return angles.sort(dim=1, descending=True).values[:, :-1]
