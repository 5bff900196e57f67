"""Residual: the feature's part outside the principal space of ID features (Wang et al., CVPR 2022).

    s(z) = −‖R(z − u)‖,   u = −W⁺b

R projects on the space left over by the leading directions of the second moment of z − u, as in ViM, whose
virtual logit this is. ID features have little there.

Where it fails: it sees the residual space alone: OOD rows within the principal space look as ID rows do.

Cost for N rows, beyond the logits: N·D·(D − d).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept_like
from ..geometry.deviation import away, length
from ..geometry.residual import residual_space
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._precision import reach, unresolved
from ._registry import register
from .shaping import Shaping

# A row is worked in float64 if its part outside the principal space is less than 1 in this many of the row
# and of the origin.
_SHARE_LIMIT = 64.0


@register(
    "residual",
    title="Residual",
    paper="Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, arXiv:2203.10807",
    year=2022,
    formula="−‖R(z − u)‖",
)
class Residual(Detector):
    """dimension: of the principal space; by default 1000 if D ≥ 2048, 512 if D ≥ 768, else D/2, as in ViM.

    Rows that span fewer dimensions have a principal space of as many: whatever they do not span counts.
    The head gives u, where all logits are 0 or nearly so; logits are not looked at.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.Residual().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    reads_head = True
    origin: Tensor
    residual: Tensor

    def __init__(self, *, dimension: int | None = None, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if dimension is not None and dimension < 1:
            raise InputError(f"dimension must be at least 1, got {dimension}")
        self.dimension = dimension

    @property
    def needs(self) -> Needs:
        return Needs(mean=True, scatter=True)

    def _fit(self, reference: Reference) -> None:
        if reference.head is None:
            raise InputError("Residual needs a head: pass head=Head(weight, bias)")
        space = residual_space(reference, reference.head, self.dimension)
        self.register_buffer("origin", space.origin)
        self.register_buffer("residual", space.directions.contiguous())

    def _build(self) -> None:
        self._reach = reach(self.origin)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        apart = away(features, self.origin)
        outside = torch.linalg.vector_norm(apart @ kept_like(self.residual, features), dim=1)
        return unresolved(-outside, outside * _SHARE_LIMIT < length(apart) + self._reach)
