"""KNN: distance to the k-th nearest ID feature on the unit sphere (Sun et al., ICML 2022).

    s(z) = −‖ẑ − ẑ_(k)‖,   ẑ = z/‖z‖, ẑ_(k) its k-th nearest neighbour in the bank

No model of the features at all: ID features have company. "KNN+" is the same score on a contrastive model.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from ..core.graphs import fixed, recording
from ..geometry.neighbours import top_similarities
from ._banked import Banked
from ._precision import crowded, unresolved
from ._registry import register
from .shaping import Shaping

# Neighbours nearer than this, as 1 − cos, are told apart in float64: float32 knows a cosine to 1e-7.
_CLOSE = 2.0**-10


@register(
    "knn",
    title="KNN",
    paper="Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, arXiv:2204.06507",
    year=2022,
    formula="−‖ẑ − k-th nearest ẑ_i‖ over the ID bank",
    aliases=("KNN+",),
)
class KNN(Banked):
    """Exact search. With fewer than k rows in the bank the furthest one counts. Rows of zeros, which have no
    direction, are taken to be at a right angle to all others and at no distance from each other.

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

    def _build(self) -> None:
        super()._build()
        if self._stored is None:
            self.exact_directions = crowded(self.bank.mean(dim=0, dtype=torch.float64))
            self._zeros: int | None = _rows_of_zeros([self.bank])
        else:
            self._zeros = None  # counted when it matters: it takes a look at the whole store

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        exact = features.dtype == torch.float64
        cosines, places = top_similarities(features, self._searched(), self.k, by_distance=exact)
        # The distance from 2 − 2cos would lose half the digits of a close neighbour; the difference does not.
        neighbour = self._bank_rows(places[:, -1]).to(features)
        distance: Tensor = torch.linalg.vector_norm(features - neighbour, dim=1)
        return -unresolved(self._to_nothing(features, neighbour, distance), cosines[:, -1] > 1 - _CLOSE)

    def _to_nothing(self, features: Tensor, neighbour: Tensor, distance: Tensor) -> Tensor:
        """Distances, where a row of zeros has a direction of its own: its like is there, all else across."""
        nothing, beside = ~features.any(dim=1), ~neighbour.any(dim=1)
        if not recording() and not bool((nothing | beside).any()):
            return distance
        across = torch.full_like(distance, 2**0.5)
        to_its_like = torch.zeros_like(across) if self._enough_zeros() else across
        return torch.where(nothing, to_its_like, torch.where(beside, across, distance))

    def _enough_zeros(self) -> bool:
        """Whether the bank has as many rows of zeros as neighbours are asked for."""
        if self._zeros is None:
            assert self._stored is not None
            self._zeros = _rows_of_zeros(self._stored.blocks())
        count = fixed(self.bank.shape[0]) if self._stored is None else self._stored.count
        return self._zeros >= min(self.k, count)


def _rows_of_zeros(blocks: Iterable[Tensor]) -> int:
    return sum(int((~block.any(dim=1)).sum()) for block in blocks)
