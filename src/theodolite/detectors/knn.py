"""KNN: distance to the k-th nearest ID feature on the unit sphere (Sun et al., ICML 2022).

    s(z) = −‖ẑ − ẑ_(k)‖,   ẑ = z/‖z‖, ẑ_(k) its k-th nearest neighbour in the bank

No model of the features at all: ID features have company. "KNN+" is the same score on a contrastive model.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..geometry.neighbours import top_similarities
from ._banked import Banked
from ._registry import register
from .shaping import Shaping


@register(
    "knn",
    title="KNN",
    paper="Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, arXiv:2204.06507",
    year=2022,
    formula="−‖ẑ − k-th nearest ẑ_i‖ over the ID bank",
    aliases=("KNN+",),
)
class KNN(Banked):
    """Exact search. With fewer than k rows in the bank the furthest one counts.

    k: the field uses 50 on CIFAR-10, 200 on CIFAR-100, 1000 on ImageNet.
    fraction: share of each class kept in the bank, chosen by ``seed``.
    store: the folder of a feature store that is the bank; its rows stay on disk, and `fit` needs no features.
    """

    uses_logits = False
    unit = True

    def __init__(
        self,
        *,
        k: int = 50,
        fraction: float = 1.0,
        seed: int = 0,
        store: str | Path | None = None,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(k=k, fraction=fraction, seed=seed, store=store, shaping=shaping)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        _, places = top_similarities(features, self._searched(), self.k)
        # The distance from 2 − 2cos would lose half the digits of a close neighbour; the difference does not.
        neighbour = self._bank_rows(places[:, -1]).to(features)
        distance: Tensor = torch.linalg.vector_norm(features - neighbour, dim=1)
        return -distance
