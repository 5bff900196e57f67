"""NECO: share of a feature that lies in the principal space of ID features (Ben Ammar et al., ICLR 2024).

    s(z) = ‖P x‖ / ‖x‖ · max_c l_c,   x = (z − m)/σ, P the leading principal directions of x

Neural collapse puts ID features into a low-dimensional space and OOD features orthogonal to it.

Where it fails: before features have collapsed, early in a training or with few classes, OOD features have a
share in the same space; the largest logit then decides.

Cost for N rows, beyond the logits: N·D·d for d directions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept_like
from ..geometry.covariance import Axes, scale_of, total_covariance
from ..geometry.deviation import away
from ..geometry.principal import explaining
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import largest
from ._precision import blurred, reach, unresolved
from ._registry import register
from .shaping import Shaping


@register(
    "neco",
    title="NECO",
    paper="Ben Ammar et al., NECO: Neural Collapse Based Out-of-distribution Detection, arXiv:2310.06823",
    year=2024,
    formula="‖Px‖/‖x‖ · max l, x standardised, P principal directions",
)
class NECO(Detector):
    """variance: the principal space is the smallest that explains this share of it.

    dimension: overrides it with a number of directions. use_logit: multiply with the largest logit.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.NECO().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    mean: Tensor
    scale: Tensor
    directions: Tensor

    def __init__(
        self,
        *,
        variance: float = 0.9,
        dimension: int | None = None,
        use_logit: bool = True,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(shaping=shaping)
        if not 0 < variance <= 1:
            raise InputError(f"variance must lie in (0, 1], got {variance}")
        if dimension is not None and dimension < 1:
            raise InputError(f"dimension must be at least 1, got {dimension}")
        self.variance = variance
        self.dimension = dimension
        self.use_logit = use_logit

    @property
    def needs(self) -> Needs:
        return Needs(mean=True, scatter=True)

    def _fit(self, reference: Reference) -> None:
        moments = reference.statistics.moments
        covariance = total_covariance(reference)
        spread = covariance.diagonal().clamp_min(0).sqrt()
        scale = scale_of(moments.mean, spread)
        variances, directions = reference.derived(
            "axes of standardised rows", lambda: Axes.of(covariance / scale / scale[:, None])
        )
        count = self.dimension or explaining(variances, self.variance)
        self.register_buffer("mean", moments.mean)
        self.register_buffer("scale", scale)
        self.register_buffer("directions", directions[:, -count:].contiguous())

    def _build(self) -> None:
        self._reach = reach(self.mean / self.scale)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        standard = away(features, self.mean) / self.scale.to(features)
        whole = torch.linalg.vector_norm(standard, dim=1)
        part = torch.linalg.vector_norm(standard @ kept_like(self.directions, features), dim=1)
        share = torch.where(whole > 0, part / whole, torch.zeros_like(whole))
        scores = share * largest(logits) if self.use_logit else share
        return unresolved(scores, blurred(whole, self._reach))
