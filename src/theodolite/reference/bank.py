"""The bank: a sample of in-distribution rows that does not depend on the order they came in.

Each sample has a pseudo-random key, a hash of (seed, sample id), and the rows with the smallest keys stay.
The smallest k of a union are among the smallest k of its parts: banks merge exactly, and a bank of k rows is
the beginning of any larger one. A *share* of every class is kept the same way: with room to spare while the
classes are still growing, cut to measure by `share_of_each_class`.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import torch
from torch import Tensor

from ..core.arrays import as_float
from ..core.errors import InputError

ALL_ROWS = sys.maxsize
_KEY_RANGE = 2.0**63

# While streaming, a share is held this many times over, and never fewer rows a class than this: the chance
# that a class then lacks rows for its share is below 1e-8.
_SPARE = 3
_FEWEST_OF_A_CLASS = 16


def sample_keys(ids: Tensor, seed: int) -> Tensor:
    """63 pseudo-random bits for each id: two rounds of the SplitMix64 finaliser."""
    state = ids.cpu().numpy().astype(np.int64).view(np.uint64)
    salt = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    for _ in range(2):
        state = state + salt + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return torch.from_numpy((state >> np.uint64(1)).astype(np.int64))


class Bank:
    """The ``size`` rows with the smallest keys, and those that a ``share`` of each class calls for.

    Rows come with labels (−1 where unknown) and ids, in the order of their keys.
    """

    def __init__(self, size: int, width: int, *, share: float = 0.0, seed: int = 0) -> None:
        self.size = size
        self.share = share
        self.seed = seed
        self.width = width
        self._parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self._loose = 0  # rows added since the last `_compact`
        self._class_sizes = torch.zeros(0, dtype=torch.int64)  # at label + 1, so that −1 has a place

    def restored(self, features: Tensor, labels: Tensor, ids: Tensor, class_sizes: Tensor) -> Bank:
        """A bank like this one with what another holds: its rows, in order, and its `class_sizes`."""
        bank = Bank(self.size, self.width, share=self.share, seed=self.seed)
        bank._parts = [(sample_keys(ids, self.seed), features, labels, ids)]
        bank._class_sizes = class_sizes
        return bank

    def add(self, features: Tensor, labels: Tensor | None, ids: Tensor) -> None:
        """Offer rows; those whose keys are small enough stay."""
        ids = ids.to("cpu", torch.int64)
        labels = torch.full_like(ids, -1) if labels is None else labels.to("cpu", torch.int64)
        self._class_sizes = _added(self._class_sizes, torch.bincount(labels + 1))
        keys = sample_keys(ids, self.seed)
        kept = self._kept(keys, labels)
        # Indexing copies: the caller may reuse its buffer for the next batch.
        self._parts.append((keys[kept], as_float(features).cpu()[kept], labels[kept], ids[kept]))
        self._loose += len(kept)
        if self._loose > max(4096, len(self._parts[0][0])):
            self._compact()

    def _kept(self, keys: Tensor, labels: Tensor) -> Tensor:
        """Indices of the rows to hold on to, in the order of their keys."""
        order = keys.argsort(stable=True)
        if len(order) <= self.size:
            return order
        keep = torch.zeros(len(order), dtype=torch.bool)
        keep[: self.size] = True
        if self.share:
            keep |= keys[order] < min(1.0, _SPARE * self.share) * _KEY_RANGE
            keep |= _rank_in_class(labels[order]) < _FEWEST_OF_A_CLASS
        return order[keep]

    def _compact(self) -> None:
        """Forget all but the smallest keys. Called when as much is loose as held: a sort now and then."""
        keys, rows, labels, ids = (torch.cat(column) for column in zip(*self._parts, strict=True))
        kept = self._kept(keys, labels)
        self._parts = [(keys[kept], rows[kept], labels[kept], ids[kept])]
        self._loose = 0

    def _column(self, index: int) -> Tensor:
        if not self._parts:
            return torch.zeros(0, self.width) if index == 1 else torch.zeros(0, dtype=torch.int64)
        if len(self._parts) > 1:
            self._compact()
        return self._parts[0][index]

    def __len__(self) -> int:
        return len(self._column(0))

    @property
    def features(self) -> Tensor:
        return self._column(1)

    @property
    def labels(self) -> Tensor:
        return self._column(2)

    @property
    def ids(self) -> Tensor:
        return self._column(3)

    @property
    def class_sizes(self) -> Tensor:
        """Rows ever offered of each class, at label + 1: those without a label come first."""
        return self._class_sizes

    def share_of_each_class(self, share: float) -> Tensor:
        """Places in the bank of ⌈share·n_c⌉ rows of each class, n_c the rows of class c ever offered."""
        labels = self.labels
        wanted = torch.tensor([math.ceil(share * int(size)) for size in self._class_sizes])
        return (_rank_in_class(labels) < wanted[labels + 1]).nonzero().flatten()

    def __add__(self, other: Bank) -> Bank:
        merged = Bank(self.size, self.width, share=self.share, seed=self.seed)
        merged._class_sizes = _added(self._class_sizes, other._class_sizes)
        merged._parts = [*self._parts, *other._parts]
        if merged._parts:
            merged._compact()
        ids = merged.ids.numpy()
        if len(np.unique(ids)) != len(ids):
            raise InputError(
                "both halves hold samples with the same ids: pass distinct ids= to each, "
                "so that the merged bank equals the bank of the whole"
            )
        return merged


def _rank_in_class(labels: Tensor) -> Tensor:
    """How many earlier entries have the same label."""
    order = labels.argsort(stable=True)
    grouped = labels[order]
    new = torch.ones(len(grouped), dtype=torch.bool)
    new[1:] = grouped[1:] != grouped[:-1]
    places = torch.arange(len(grouped))
    starts = torch.where(new, places, 0).cummax(dim=0).values if len(grouped) else places
    ranks = torch.empty_like(places)
    ranks[order] = places - starts
    return ranks


def _added(one: Tensor, other: Tensor) -> Tensor:
    total = torch.zeros(max(len(one), len(other)), dtype=torch.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total
