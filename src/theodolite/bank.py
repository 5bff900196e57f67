"""The bank: a sample of in-distribution rows that does not depend on the order they came in.

Each sample has a pseudo-random key, a hash of (seed, sample id); the bank keeps the rows with the smallest
keys. The smallest k of a union are the smallest k of the parts' smallest k, so banks merge exactly, and a
bank of k rows is the first k rows of any larger one with the same seed.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor

from .arrays import as_float
from .errors import InputError

ALL_ROWS = sys.maxsize


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
    """Up to ``size`` rows with labels (−1 where unknown) and ids, in the order of their keys."""

    def __init__(self, size: int, width: int, *, seed: int = 0) -> None:
        self.size = size
        self.seed = seed
        self.width = width
        self._parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self._held = 0
        self._sorted = True

    def add(self, features: Tensor, labels: Tensor | None, ids: Tensor) -> None:
        """Offer rows; those whose keys are small enough stay."""
        ids = ids.to("cpu", torch.int64)
        keys = sample_keys(ids, self.seed)
        if labels is None:
            labels = torch.full_like(ids, -1)
        labels = labels.to("cpu", torch.int64)
        rows = as_float(features).cpu()
        if len(keys) > self.size:
            chosen = keys.argsort(stable=True)[: self.size]
            keys, rows, labels, ids = keys[chosen], rows[chosen], labels[chosen], ids[chosen]
        # The caller may reuse its buffer for the next batch.
        self._parts.append((keys, rows.clone(), labels, ids))
        self._held += len(keys)
        self._sorted = False
        if self._held > 2 * self.size:
            self._compact()

    def _compact(self) -> None:
        """Sort by key, drop all but the smallest. Called when twice full: O(1) sorts a row on average."""
        keys, rows, labels, ids = (torch.cat(column) for column in zip(*self._parts, strict=True))
        order = keys.argsort(stable=True)[: self.size]
        self._parts = [(keys[order], rows[order], labels[order], ids[order])]
        self._held = len(order)
        self._sorted = True

    def _column(self, index: int) -> Tensor:
        if not self._sorted:
            self._compact()
        return self._parts[0][index]

    def __len__(self) -> int:
        return min(self._held, self.size)

    @property
    def features(self) -> Tensor:
        return self._column(1) if self._parts else torch.zeros(0, self.width)

    @property
    def labels(self) -> Tensor:
        return self._column(2) if self._parts else torch.zeros(0, dtype=torch.int64)

    @property
    def ids(self) -> Tensor:
        return self._column(3) if self._parts else torch.zeros(0, dtype=torch.int64)

    def __add__(self, other: Bank) -> Bank:
        merged = Bank(self.size, self.width, seed=self.seed)
        merged._parts = [*self._parts, *other._parts]
        merged._held = self._held + other._held
        merged._sorted = not merged._parts
        ids = merged.ids
        if len(np.unique(ids.numpy())) != len(ids):
            raise InputError(
                "both halves hold samples with the same ids: pass distinct ids= to each, "
                "so that the merged bank equals the bank of the whole"
            )
        return merged
