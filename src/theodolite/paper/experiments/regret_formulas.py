"""Candidates for the recommended score that are not in the registry: formulas of class means.

μ and Σ are mean and covariance of the ID features, Σ shrunk by OAS as in Relative Energy; μ_c are the class
means, W the covariance within classes, with N − C in the denominator and shrunk alike; l are the logits, l̄
is their mean. R-Mah turns upside down where the fit sees two rows a class (known before), because W's
pseudo-inverse does not see what Σ's sees: the shrunk W has full rank, and N − C is what makes the two
comparable there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ...benchmarks.feature_sets import FeatureSet
from ...core.arrays import FloatArray
from ...core.errors import InputError
from ...detectors import MDS, Detector, MahaPlus
from ...geometry.covariance import total_covariance, whitened_distances
from ...geometry.inner_product import Mahalanobis, spectrum
from ...reference.head import Head, unit_rows

# A row on a mean is as near as can be.
_TINY = 1e-12

Found: TypeAlias = dict[str, dict[str, FloatArray]]


@dataclass(frozen=True)
class Sight:
    """A batch of rows in float64, seen in every way that a formula below needs."""

    evidence: Tensor  # log Σ exp(l − l̄)
    deviation: Tensor  # ‖z − μ‖_Σ
    to_mean: Tensor  # min_c ‖z − μ_c‖_Σ
    within: Tensor  # min_c ‖z − μ_c‖_W
    discriminant: Tensor  # log Σ exp(g − ḡ), g_c = ⟨z − μ, μ_c − μ⟩_W − ‖μ_c − μ‖²_W / 2
    cosine: Tensor  # max_c cos(z, μ_c)
    centred: Tensor  # max_c cos(z − μ, μ_c − μ)
    in_metric: Tensor  # the same with the inner product of Σ
    unit: Tensor  # ‖ẑ − μ̂‖²_Σ̂ − min_c ‖ẑ − μ̂_c‖²_Ŵ, all of unit features


@dataclass(frozen=True)
class Formula:
    """A candidate that is not in the registry, and why it is one."""

    score: Callable[[Sight], Tensor]
    why: str


def _relative_energy(sight: Sight) -> Tensor:
    return sight.evidence / sight.deviation.clamp_min(_TINY)


FORMULAS: Mapping[str, Formula] = {
    "max_c cos(z − μ, μ_c − μ)": Formula(
        lambda s: s.centred, "P-Cos without what all features share, their mean"
    ),
    "max_c cos_Σ(z − μ, μ_c − μ)": Formula(
        lambda s: s.in_metric, "class cosines in the metric in which Relative Energy measures deviations"
    ),
    "log Σ exp(l − l̄) / min_c ‖z − μ_c‖_Σ": Formula(
        lambda s: s.evidence / s.to_mean.clamp_min(_TINY), "Relative Energy with class means in its metric"
    ),
    "log Σ exp(l − l̄) / min_c ‖z − μ_c‖_W": Formula(
        lambda s: s.evidence / s.within.clamp_min(_TINY),
        "the same, deviations in units of those within classes",
    ),
    "log Σ exp(g − ḡ) / ‖z − μ‖_Σ": Formula(
        lambda s: s.discriminant / s.deviation.clamp_min(_TINY),
        "Relative Energy of linear discriminants: on text the scores that know no head lead",
    ),
    "MDS, W shrunk": Formula(lambda s: -s.within.square(), "MDS for fewer rows than W has directions"),
    "R-Mah, W shrunk": Formula(
        lambda s: s.deviation.square() - s.within.square(),
        "R-Mah leads on text and is upside down on ImageNet, for want of rows",
    ),
    "R-Mah+, W shrunk": Formula(lambda s: s.unit, "the same on unit features"),
    "Relative Energy · P-Cos": Formula(
        lambda s: _relative_energy(s) * s.cosine, "what leads on pictures times what leads on text"
    ),
    "Relative Energy · max_c cos_Σ": Formula(
        lambda s: _relative_energy(s) * s.in_metric, "the same, both in one metric"
    ),
}


def formula_scores(head: Head, fit: FeatureSet, sets: Mapping[str, FeatureSet]) -> Found:
    """The formulas, fitted on ``fit``, by label and set."""
    look = _looker(head, fit)
    found: Found = {label: {} for label in FORMULAS}
    for name, rows in sets.items():
        sights = [look(features.double()) for features, _, _ in rows]
        for label, formula in FORMULAS.items():
            found[label][name] = torch.cat([formula.score(sight) for sight in sights]).numpy()
    return found


@dataclass(frozen=True)
class _Classes:
    """Class means about the mean, in both metrics."""

    mean: Tensor
    means: Tensor
    total: Mahalanobis
    within: Mahalanobis

    @classmethod
    def of(cls, detector: Detector, fit: FeatureSet, head: Head) -> _Classes:
        reference = detector.collect(fit, head=head)
        moments = reference.statistics.moments
        present = moments.counts > 0
        free = reference.count - int(present.sum())
        scatter = moments.within
        assert scatter is not None
        if free < 1:
            raise InputError(f"{reference.count} rows, one a class, do not vary within classes")
        return cls(
            moments.mean,
            moments.means[present],
            Mahalanobis(spectrum(total_covariance(reference), reference.count)),
            Mahalanobis(spectrum(scatter / free, free)),
        )

    def squares(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """‖z − μ‖²_Σ, then the smallest ‖z − μ_c‖² in Σ and in W."""
        away, apart_from = rows - self.mean, self.means - self.mean
        smallest = [
            whitened_distances(metric.coordinates(away), metric.coordinates(apart_from)).amin(dim=1)
            for metric in (self.total, self.within)
        ]
        return self.total.coordinates(away).square().sum(dim=1), smallest[0], smallest[1]


def _looker(head: Head, fit: FeatureSet) -> Callable[[Tensor], Sight]:
    plain, unit = (_Classes.of(detector, fit, head) for detector in (MDS(), MahaPlus()))
    apart_from = plain.means - plain.mean
    directions, steps = plain.total.coordinates(apart_from), plain.within.coordinates(apart_from)

    def look(rows: Tensor) -> Sight:
        away, logits = rows - plain.mean, head(rows)
        inside = plain.total.coordinates(away)
        squared, to_mean, within = plain.squares(rows)
        g = plain.within.coordinates(away) @ steps.T - steps.square().sum(dim=1) / 2
        on_sphere, _, near = unit.squares(unit_rows(rows))
        return Sight(
            evidence=_evidence(logits),
            deviation=squared.sqrt(),
            to_mean=to_mean.sqrt(),
            within=within.sqrt(),
            discriminant=_evidence(g),
            cosine=_largest_cosine(rows, plain.means),
            centred=_largest_cosine(away, apart_from),
            in_metric=_largest_cosine(inside, directions),
            unit=on_sphere - near,
        )

    return look


def _evidence(logits: Tensor) -> Tensor:
    return torch.logsumexp(logits, dim=1) - logits.mean(dim=1)


def _largest_cosine(rows: Tensor, directions: Tensor) -> Tensor:
    return (unit_rows(rows) @ unit_rows(directions).T).amax(dim=1)
