"""Relative Energy: the evidence for the classes over the feature's deviation from ID data, in its own metric.

    s(z) = log Σ_c exp(l_c − l̄) / ‖z − μ‖_Σ,   ‖x‖²_Σ = xᵀ Σ⁻¹ x

with l̄ the mean logit, μ and Σ mean and shrunk covariance of the ID features (OAS, no knob). fDBD and ORA ask
how far the boundaries are at a given deviation from the mean; this asks it of all of them at once, and
measures the deviation in units of what ID features do. Adding the same function to all logits changes
nothing, and without shrinkage neither does any invertible affine map of the feature space.

Where it fails: on CLINC150, whose OOD questions are of the same kind as its own, it is 13 points of FPR95
behind P-Cos and 16 behind R-Mah with a head of 92.2 %; with one of 95.3 %, 2 behind R-Mah (which-score.md).

Cost for N rows, beyond the logits: N·D².
"""

from __future__ import annotations

from torch import Tensor

from ..geometry.deviation import away, length
from ..reference.reference import Reference
from ._common import evidence
from ._measured import Measured
from ._precision import blurred, reach, resolved_ratio
from ._registry import register
from .shaping import Shaping


@register(
    "relative-energy",
    title="Relative Energy",
    paper="theodolite, docs/metric.md",
    year=2026,
    formula="log Σ_c exp(l_c − l̄) / ‖z − μ‖_Σ",
)
class RelativeEnergy(Measured):
    """theodolite's own recommendation. 0 where z = μ. shrinkage: as in ORA.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.RelativeEnergy().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    mean: Tensor

    def __init__(self, *, shrinkage: str = "oas", shaping: Shaping | str | None = None) -> None:
        super().__init__(metric="mahalanobis", shrinkage=shrinkage, shaping=shaping)

    def _fit(self, reference: Reference) -> None:
        super()._fit(reference)
        self.register_buffer("mean", reference.statistics.moments.mean)

    def _build(self) -> None:
        super()._build()
        self._reach = reach(self.mean, self.head)

    def _notices(self, tile: Tensor) -> bool:  # noqa: ARG002
        """Such a row has no finite length, or no finite evidence; a shaping may hide it."""
        return self.shaping is None

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        apart = away(features, self.mean)
        deviation = length(self._coordinates(apart))
        return resolved_ratio(evidence(logits), deviation, blurred(length(apart), self._reach))
