"""KNN: distance to the k-th nearest ID feature on the unit sphere (Sun et al., ICML 2022).

    s(z) = −‖ẑ − ẑ_(k)‖,   ẑ = z/‖z‖, ẑ_(k) its k-th nearest neighbour in the bank

No model of the features at all: ID features have company. "KNN+" is the same score on a contrastive model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..bank import ALL_ROWS
from ..errors import InputError
from ..features.store import FeatureStore
from ..head import Head
from ..neighbours import query_rows, top_similarities
from ..reference import Reference
from ..shaping import Shaping
from ..statistics import Needs
from ..stored_bank import STORED_QUERY_ROWS, StoredBank, chosen_ids, store_identity
from .base import Detector
from .registry import register

if TYPE_CHECKING:
    from .nnguide import NNGuide


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


def store_head(path: str | None) -> Head | None:
    """The head that a store was extracted with."""
    return None if path is None else FeatureStore(path).head


def remember_store(detector: Detector, path: str, fraction: float, seed: int) -> None:
    """Keep what makes a store the bank of a detector: which store it was, and which of its rows count."""
    store = FeatureStore(path)
    detector.register_buffer("store_identity", store_identity(store))
    detector.register_buffer("chosen", chosen_ids(store, fraction, seed))


def open_bank(detector: KNN | NNGuide, path: str, view: Callable[[Tensor], Tensor]) -> StoredBank:
    """The bank that `remember_store` described; a store that changed, or of another width, is refused."""
    bank = StoredBank(path, view, detector.chosen)
    bank.require(detector.store_identity)
    if bank.store.width != detector.width:
        raise InputError(f"{path} holds features of width {bank.store.width}, not {detector.width}")
    return bank


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
    store: the folder of a feature store that is the bank; its rows stay on disk, and `fit` needs no features.
    """

    uses_logits = False
    unit = True
    bank: Tensor
    store_identity: Tensor
    chosen: Tensor

    def __init__(
        self,
        *,
        k: int = 50,
        fraction: float = 1.0,
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
            self.register_buffer("bank", bank_rows(reference, self.fraction))
        else:
            remember_store(self, self.store, self.fraction, self.seed)

    def _build(self) -> None:
        self._stored = None if self.store is None else open_bank(self, self.store, self._view)

    def _tile_rows(self, device: torch.device) -> int:
        return query_rows(device) if self._stored is None else STORED_QUERY_ROWS

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        if self._stored is None:
            _, places = top_similarities(features, self.bank, self.k)
            neighbour = self.bank[places[:, -1]]
        else:
            _, places = top_similarities(features, self._stored.blocks(), self.k)
            neighbour = self._stored.rows(places[:, -1])
        # The distance from 2 − 2cos would lose half the digits of a close neighbour; the difference does not.
        distance: Tensor = torch.linalg.vector_norm(features - neighbour.to(features), dim=1)
        return -distance
