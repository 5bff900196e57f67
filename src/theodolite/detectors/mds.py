"""MDS: Mahalanobis distance to the nearest class mean (Lee et al., NeurIPS 2018).

    s(z) = −min_c (z − μ_c)ᵀ Σ⁺ (z − μ_c),   Σ = 1/N Σ_i (z_i − μ_{y_i})(z_i − μ_{y_i})ᵀ

Features of one class are taken as one Gaussian with a shared covariance; OOD features fit none of them.
A rank-deficient Σ has its pseudo-inverse taken.

Where it fails: features whose lengths differ within a class are no Gaussian, which Maha+ mends; with few rows
a class the covariance is poor.

Cost for N rows, beyond the logits: N·D² + N·D·C in float64.
"""

from __future__ import annotations

from torch import Tensor

from ..core.once import once
from ..geometry.covariance import whitened_distances, whitener, within_axes
from ..geometry.deviation import away
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import in_precision
from ._registry import register


@register(
    "mds",
    title="MDS",
    paper="Lee et al., A Simple Unified Framework for Detecting OOD Samples, arXiv:1807.03888",
    year=2018,
    formula="−min_c (z − μ_c)ᵀ Σ⁺ (z − μ_c), Σ pooled within classes",
    aliases=("Mahalanobis", "Mah"),
)
class MDS(Detector):
    """Squared distances, in units of the within-class covariance. Classes without samples are left out.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.MDS().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    second_look = False
    centre: Tensor
    factor: Tensor
    means: Tensor

    @property
    def needs(self) -> Needs:
        return Needs(class_means=True, scatter=True)

    def _fit(self, reference: Reference) -> None:
        moments = reference.statistics.moments
        factor = reference.derived("whitener within classes", lambda: whitener(within_axes(reference)))
        present = moments.means[moments.counts > 0]
        self.register_buffer("centre", moments.mean)
        self.register_buffer("factor", factor)
        self.register_buffer("means", (present - moments.mean) @ factor)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        exact = in_precision(features, self.factor.dtype)
        return -once(_nearest, exact, self.centre, self.factor, self.means).to(features.dtype)


def _nearest(rows: Tensor, centre: Tensor, factor: Tensor, means: Tensor) -> Tensor:
    """The squared distance to the nearest of the whitened means."""
    return whitened_distances(away(rows, centre) @ factor, means).amin(dim=1)
