"""NNGuide: energy, guided by the energies of the nearest ID features (Park et al., ICCV 2023).

    s(z) = E(z) · mean over the k largest of E(z_i)·⟨ẑ, ẑ_i⟩,   E = log-sum-exp of the logits

A confident answer counts for little where no confident ID feature lies in the same direction.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..head import Head, unit_rows
from ..neighbours import query_rows, top_similarities
from ..reference import Reference
from ..shaping import Shaping
from ..statistics import Needs
from ..stored_bank import STORED_QUERY_ROWS
from .base import Detector
from .knn import bank_needs, bank_rows, check_bank_options, open_bank, remember_store, store_head
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
    """k: neighbours averaged. fraction: share of each class in the bank (the field uses 1 %), by ``seed``.

    store: the folder of a feature store that is the bank; its rows stay on disk, and `fit` needs no features.
    """

    guide: Tensor
    store_identity: Tensor
    chosen: Tensor

    def __init__(
        self,
        *,
        k: int = 10,
        fraction: float = 0.01,
        seed: int = 0,
        store: str | Path | None = None,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(shaping=shaping)
        check_bank_options(k, fraction)
        self.k = k
        self.fraction = fraction
        self.seed = seed
        self.bank_seed = seed
        self.store = None if store is None else str(store)

    @property
    def needs(self) -> Needs:
        return bank_needs(self.fraction) if self.store is None else Needs()

    def _without_data(self, head: Head | None) -> Reference:
        return super()._without_data(head or store_head(self.store))

    def _fit(self, reference: Reference) -> None:
        if self.store is None:
            self.register_buffer("guide", self._guides(bank_rows(reference, self.fraction)))
        else:
            remember_store(self, self.store, self.fraction, self.seed)

    def _build(self) -> None:
        self._stored = None
        if self.store is not None:
            self._stored = open_bank(self, self.store, lambda rows: self._guides(self._view(rows)))

    def _guides(self, rows: Tensor) -> Tensor:
        assert self.head is not None
        here = rows.to(self.head.weight.device)
        energy = torch.logsumexp(self.head.logits(here), dim=1, keepdim=True)
        return energy * unit_rows(here)

    def _tile_rows(self, device: torch.device) -> int:
        return query_rows(device) if self._stored is None else STORED_QUERY_ROWS

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        bank = self.guide if self._stored is None else self._stored.blocks()
        best, _ = top_similarities(unit_rows(features), bank, self.k)
        return torch.logsumexp(logits, dim=1) * best.mean(dim=1)
