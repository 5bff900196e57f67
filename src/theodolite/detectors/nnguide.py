"""NNGuide: energy, guided by the energies of the nearest ID features (Park et al., ICCV 2023).

    s(z) = E(z) · mean over the k largest of E(z_i)·⟨ẑ, ẑ_i⟩,   E = log-sum-exp of the logits

A confident answer counts for little where no confident ID feature lies in the same direction.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..head import unit_rows
from ..neighbours import query_rows, top_similarities
from ..reference import Reference
from ..shaping import Shaping
from ..statistics import Needs
from .base import Detector
from .knn import bank_needs, bank_rows, check_bank_options
from .registry import register


@register(
    "nnguide",
    title="NNGuide",
    paper="Park et al., Nearest Neighbor Guidance for Out-of-Distribution Detection, arXiv:2309.14888",
    year=2023,
    formula="E(z) · mean of the top-k of ⟨ẑ, E(z_i)·ẑ_i⟩",
    aliases=("NNG",),
)
class NNGuide(Detector):
    """k: neighbours averaged. fraction: share of each class in the bank (the field uses 1 %), by ``seed``."""

    guide: Tensor

    def __init__(
        self, *, k: int = 10, fraction: float = 0.01, seed: int = 0, shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(shaping=shaping)
        check_bank_options(k, fraction)
        self.k = k
        self.fraction = fraction
        self.seed = seed
        self.bank_seed = seed

    @property
    def needs(self) -> Needs:
        return bank_needs(self.fraction)

    def _fit(self, reference: Reference) -> None:
        assert reference.head is not None
        rows = bank_rows(reference, self.fraction).to(reference.head.weight.device)
        energy = torch.logsumexp(reference.head.logits(rows), dim=1, keepdim=True)
        self.register_buffer("guide", energy * unit_rows(rows))

    def _tile_rows(self, device: torch.device) -> int:
        return query_rows(device)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        best, _ = top_similarities(unit_rows(features), self.guide, min(self.k, len(self.guide)))
        return torch.logsumexp(logits, dim=1) * best.mean(dim=1)
