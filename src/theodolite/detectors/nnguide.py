"""NNGuide: energy, guided by the energies of the nearest ID features (Park et al., ICCV 2023).

    s(z) = E(z) · mean over the k largest of E(z_i)·⟨ẑ, ẑ_i⟩,   E = log-sum-exp of the logits

A confident answer counts for little where no confident ID feature lies in the same direction.

Where it fails: the energies are a factor: where OOD rows have high ones, near neighbours do not undo it. A
bank of 1 % is small for a small data set.

Cost for N rows, beyond the logits: N·D·B, for B rows in the bank.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..geometry.neighbours import top_similarities
from ..reference.head import row_lengths, unit_rows
from ._banked import Banked
from ._common import log_sum_exp, unit
from ._registry import register
from .shaping import Shaping


@register(
    "nnguide",
    title="NNGuide",
    paper="Park et al., Nearest Neighbor Guidance for Out-of-Distribution Detection, arXiv:2309.14888",
    year=2023,
    formula="E(z) · mean of the top-k of ⟨ẑ, E(z_i)·ẑ_i⟩",
    aliases=("NNG",),
)
class NNGuide(Banked):
    """k: neighbours averaged. fraction: share of each class in the bank (the field uses 1 %), by ``seed``.

    half_bank: keep the bank in float16, in half the memory.
    store: the folder of a feature store that is the bank; its rows stay on disk, and `fit` needs no features.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.NNGuide(k=5, fraction=0.5).fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(
        self,
        *,
        k: int = 10,
        fraction: float = 0.01,
        seed: int = 0,
        half_bank: bool = False,
        store: str | Path | None = None,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(k=k, fraction=fraction, seed=seed, half_bank=half_bank, store=store, shaping=shaping)

    def _entries(self, rows: Tensor) -> Tensor:
        """E(z_i)·ẑ_i"""
        assert self.head is not None
        here = rows.to(self.head.weight.device)
        energy = torch.logsumexp(self.head.logits(here), dim=1, keepdim=True)
        return energy * unit_rows(here)

    def _factors(self, rows: Tensor) -> Tensor | None:
        assert self.head is not None
        if self.shaping is not None or self.head.unit_features:
            return None
        lengths = row_lengths(rows)
        if lengths is None:
            return None
        here = rows.to(self.head.weight.device)
        return torch.logsumexp(self.head.logits(here), dim=1, keepdim=True).to(lengths) / lengths

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        best, _ = top_similarities(unit(features), self._searched(), self.k)
        return log_sum_exp(logits) * best.mean(dim=1)
