"""ViM: energy less a virtual logit, the feature's part outside the principal space (Wang et al., CVPR 2022).

    s(z) = log Σ_c exp(l_c) − α·‖R(z − u)‖,   u = −W⁺b,   α = Σ_i max l(z_i) / Σ_i ‖R(z_i − u)‖

R projects on the space left over by the leading directions of the second moment of z − u. ID features have
little there. α makes the virtual logit as large as the real ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept_like
from ..geometry.covariance import Axes, total_axes, total_covariance
from ..geometry.deviation import away, length
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
# The square of the origin's distance, in variances of the features, beyond which the fit needs more care.
_DWARFED = 2.0**20


@register(
    "vim",
    title="ViM",
    paper="Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, arXiv:2203.10807",
    year=2022,
    formula="logsumexp(l) − α‖R(z − u)‖",
)
class ViM(Detector):
    """dimension: of the principal space; by default 1000 if D ≥ 2048, 512 if D ≥ 768, else D/2."""

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
        head, moments = reference.head, reference.statistics.moments
        assert head is not None
        dimension = self.dimension or default_dimension(head.width)
        if dimension >= head.width:
            raise InputError(f"dimension must be below the feature width {head.width}, got {dimension}")
        weight, bias = head.weight.to(moments.mean), head.bias.to(moments.mean)
        # Weights that sum to zero over the classes but for their rounding have no inverse in that direction.
        tolerance = max(head.weight.shape) * torch.finfo(head.weight.dtype).eps
        origin = reference.derived(
            "origin of the logits", lambda: -torch.linalg.pinv(weight, rtol=tolerance) @ bias
        )
        shift = (moments.mean - origin)[:, None]
        ascending = reference.derived("directions about the origin", lambda: _ascending(reference, shift))
        residual = ascending[:, : head.width - dimension]
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


def _ascending(reference: Reference, shift: Tensor) -> Tensor:
    """The directions of the second moment Σ + s·sᵀ, for the total covariance and a shift (D, 1); least first.

    A shift that dwarfs the spread would drown Σ in the rounding of s·sᵀ; a singular value decomposition of
    the two roots, one above the other, keeps the digits of both.
    """
    covariance = total_covariance(reference)
    if not bool(shift.square().sum() > _DWARFED * covariance.trace()):
        return Axes.of(covariance + shift @ shift.T).directions
    variances, directions = total_axes(reference)
    roots = torch.cat([directions.T * variances.clamp_min(0).sqrt()[:, None], shift.T])
    ascending: Tensor = torch.linalg.svd(roots, full_matrices=False).Vh.flip(0).T
    return ascending


def default_dimension(width: int) -> int:
    """The field's choice of the principal dimension for features of this width."""
    if width >= 2048:
        return 1000
    return 512 if width >= 768 else max(1, width // 2)
