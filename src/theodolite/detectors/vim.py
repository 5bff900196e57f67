"""ViM: energy less a virtual logit, the feature's part outside the principal space (Wang et al., CVPR 2022).

    s(z) = log Σ_c exp(l_c) − α·‖R(z − u)‖,   u = −W⁺b,   α = Σ_i max l(z_i) / Σ_i ‖R(z_i − u)‖

R projects on the space left over by the leading directions of the second moment of z − u. ID features have
little there. α makes the virtual logit as large as the real ones.

Where it fails: α ties two scales: where ID rows have hardly any residual, it blows up what is left, noise
included; OOD rows within the principal space have no residual either.

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
from ._common import log_sum_exp
from ._precision import reach, unresolved
from ._registry import register
from .shaping import Shaping

# Rows of the bank behind α: exact up to here, from a uniform sample beyond.
_ROWS = 32_768
# So many of them at a time in float64.
_PART = 2_048
_EPSILON = torch.finfo(torch.float64).eps
# A row is worked in float64 if its part outside the principal space is less than 1 in this many: of the row
# and of the origin, which a bias that dominates puts far away.
_SHARE_LIMIT = 1024.0


@register(
    "vim",
    title="ViM",
    paper="Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, arXiv:2203.10807",
    year=2022,
    formula="logsumexp(l) − α‖R(z − u)‖",
)
class ViM(Detector):
    """dimension: of the principal space; by default 1000 if D ≥ 2048, 512 if D ≥ 768, else D/2.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.ViM().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    origin: Tensor
    residual: Tensor
    alpha: Tensor

    def __init__(self, *, dimension: int | None = None, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if dimension is not None and dimension < 1:
            raise InputError(f"dimension must be at least 1, got {dimension}")
        self.dimension = dimension

    @property
    def needs(self) -> Needs:
        return Needs(mean=True, scatter=True, bank=_ROWS)

    def _fit(self, reference: Reference) -> None:
        head = reference.head
        assert head is not None
        origin, residual = residual_space(reference, head, self.dimension)
        weight, bias = head.weight.to(origin), head.bias.to(origin)
        outside, largest, length = torch.zeros(3, dtype=origin.dtype, device=origin.device)
        for part in torch.split(reference.statistics.bank.features[:_ROWS], _PART):
            rows = part.to(origin)
            largest += torch.addmm(bias, rows, weight.T).amax(dim=1).sum()
            away = rows - origin
            outside += torch.linalg.vector_norm(away @ residual, dim=1).sum()
            length += torch.linalg.vector_norm(away, dim=1).sum()
        # Fewer rows than principal directions leave nothing outside but rounding, which says nothing.
        rounding = head.width * _EPSILON * length
        alpha = largest / outside if outside > rounding else torch.zeros_like(outside)
        self.register_buffer("origin", origin)
        self.register_buffer("residual", residual.contiguous())
        self.register_buffer("alpha", alpha)

    def _build(self) -> None:
        self._reach = reach(self.origin)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        apart = away(features, self.origin)
        outside = torch.linalg.vector_norm(apart @ kept_like(self.residual, features), dim=1)
        scores = log_sum_exp(logits).sub(self.alpha.to(features) * outside)
        return unresolved(scores, outside * _SHARE_LIMIT < length(apart) + self._reach)
