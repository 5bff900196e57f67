"""What scores that search a bank of ID rows have in common: which rows, and where they are kept."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import recording
from ..features.store import FeatureStore, is_store
from ..geometry.neighbours import query_rows
from ..reference.bank import ALL_ROWS
from ..reference.head import Head
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._half_bank import half_precision, without_later
from ._registry import OptionValue
from ._stored_bank import STORED_QUERY_ROWS, StoredBank, chosen_ids, store_identity
from .shaping import Shaping


class Banked(Detector):
    """A score with a bank of rows, in memory (the buffer ``bank``) or streamed from a feature store.

    A subclass may write `_entries`, what is searched instead of the rows themselves.
    """

    bank: Tensor
    store_identity: Tensor
    chosen: Tensor

    def __init__(
        self,
        *,
        k: int,
        fraction: float,
        seed: int,
        half_bank: bool,
        store: str | Path | None,
        shaping: Shaping | str | None,
    ) -> None:
        super().__init__(shaping=shaping)
        if k < 1:
            raise InputError(f"k must be a whole number, at least 1, got {k}")
        if not 0 < fraction <= 1:
            raise InputError(f"fraction must lie in (0, 1], got {fraction}")
        if half_bank and store is not None:
            raise InputError(
                "half_bank is for a bank in memory, and the rows of a store have the precision they were "
                "extracted in: leave out half_bank, or extract the store with --dtype float16"
            )
        self.k = k
        self.fraction = fraction
        self.seed = seed
        self.half_bank = half_bank
        self.bank_seed = seed
        self.store = None if store is None else str(Path(store).expanduser().resolve())
        self._stored: StoredBank | None = None

    @property
    def needs(self) -> Needs:
        if self.store is not None:
            return Needs()
        return Needs(bank=ALL_ROWS) if self.fraction == 1 else Needs(bank_share=self.fraction)

    def options(self) -> dict[str, OptionValue]:
        """The hyper-parameters, as the constructor takes them."""
        return without_later(super().options())

    def _entries(self, rows: Tensor) -> Tensor:
        """What is searched, for rows that went through `_view`."""
        return rows

    def _without_data(self, head: Head | None) -> Reference:
        if head is None and self.store is not None:
            head = FeatureStore(self.store).head
        return super()._without_data(head)

    def _fit(self, reference: Reference) -> None:
        if self.store is None:
            bank = reference.statistics.bank
            rows = (
                bank.features
                if self.fraction == 1
                else bank.features[bank.share_of_each_class(self.fraction)]
            )
            entries = self._entries(rows)
            self.register_buffer("bank", half_precision(entries) if self.half_bank else entries)
        else:
            store = FeatureStore(self.store)
            self.register_buffer("store_identity", store_identity(store))
            self.register_buffer("chosen", chosen_ids(store, self.fraction, self.seed))

    def _build(self) -> None:
        """Open the store that was fitted on; one that changed, or of another width, is refused."""
        if self.store is None:
            return
        if not is_store(self.store):
            raise InputError(
                f"the bank of {self._name} is the feature store {self.store}, which is not there"
            )
        bank = StoredBank(self.store, self._seen, self.chosen, self._factors)
        bank.require(self.store_identity)
        if bank.store.width != self.width:
            raise InputError(f"{self.store} holds features of width {bank.store.width}, not {self.width}")
        self._stored = bank

    def _seen(self, rows: Tensor) -> Tensor:
        return self._entries(self._shape(rows if self.head is None else self.head.prepare(rows)))

    def _factors(self, rows: Tensor) -> Tensor | None:  # noqa: ARG002
        """What `_seen` multiplies rows with (n, 1), where it does nothing else; None where it does."""
        return None

    def _searched(self) -> Tensor | Iterable[Tensor]:
        """The bank, whole or in blocks."""
        if self._stored is not None and recording():
            raise InputError(
                f"the bank of {self._name} is a feature store on disk, which a graph cannot read: fit it "
                f"with the bank in memory (store=None) to trace, export or compile it"
            )
        return self.bank if self._stored is None else self._stored.blocks()

    def _bank_rows(self, places: Tensor) -> Tensor:
        return self.bank[places] if self._stored is None else self._stored.rows(places)

    def _tile_rows(self, device: torch.device) -> int:
        return query_rows(device) if self._stored is None else STORED_QUERY_ROWS

    @property
    def _joins(self) -> bool:
        """Not with a store, all of which is read for every tile."""
        return self._stored is None
