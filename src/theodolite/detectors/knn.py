"""KNN: distance to the k-th nearest ID feature on the unit sphere (Sun et al., ICML 2022).

    s(z) = −‖ẑ − ẑ_(k)‖,   ẑ = z/‖z‖, ẑ_(k) its k-th nearest neighbour in the bank

No model of the features at all: ID features have company. "KNN+" is the same score on a contrastive model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..bank import ALL_ROWS
from ..errors import InputError
from ..neighbours import query_rows, top_similarities
from ..reference import Reference
from ..shaping import Shaping
from ..statistics import Needs
from .base import Detector
from .registry import register


def check_bank_options(k: int, fraction: float) -> None:
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    if not 0 < fraction <= 1:
        raise InputError(f"fraction must lie in (0, 1], got {fraction}")


def bank_needs(fraction: float) -> Needs:
    return Needs(bank=ALL_ROWS) if fraction == 1 else Needs(bank_share=fraction)


def bank_rows(reference: Reference, fraction: float) -> Tensor:
    """The rows of the reference's bank, or a share of each class."""
    bank = reference.statistics.bank
    return bank.features if fraction == 1 else bank.features[bank.share_of_each_class(fraction)]


@register(
    "knn",
    title="KNN",
    paper="Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, arXiv:2204.06507",
    year=2022,
    formula="−‖ẑ − k-th nearest ẑ_i‖ over the ID bank",
    aliases=("KNN+",),
)
class KNN(Detector):
    """Exact search. With fewer than k rows in the bank the furthest one counts.

    k: the field uses 50 on CIFAR-10, 200 on CIFAR-100, 1000 on ImageNet.
    fraction: share of each class kept in the bank, chosen by ``seed``.
    """

    uses_logits = False
    unit = True
    bank: Tensor

    def __init__(
        self, *, k: int = 50, fraction: float = 1.0, seed: int = 0, shaping: Shaping | str | None = None
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
        self.register_buffer("bank", bank_rows(reference, self.fraction))

    def _tile_rows(self, device: torch.device) -> int:
        return query_rows(device)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        _, places = top_similarities(features, self.bank, min(self.k, len(self.bank)))
        # The distance from 2 − 2cos would lose half the digits of a close neighbour; the difference does not.
        neighbour = self.bank[places[:, -1]].to(features)
        distance: Tensor = torch.linalg.vector_norm(features - neighbour, dim=1)
        return -distance
