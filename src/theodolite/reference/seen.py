"""Which samples were seen, in bounded memory: enough to find that two parts of the data share some.

Every value has a pseudo-random key, and the values with the smallest keys are kept, at most ``limit`` of
them, with how often each came. Up to the limit nothing is left out. Beyond it a value is kept or not by its
key alone, so of m samples that two parts share none is found with a probability of (1 − r)^m, r the share
that the larger part keeps; a part that is given twice shares all it keeps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from .bank import sample_keys

# 8 MiB of ids: exact up to a million samples.
LIMIT = 2**20
# Not the seed of any bank or share: what is kept here must not depend on what is kept there.
_SEED = 0x5EED_5EE7
_WAITING = 2**16


class Seen:
    """Whole numbers (ids, digests) that came by: their ``count``, and those with the smallest keys."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.count = 0
        self._values = torch.zeros(0, dtype=torch.int64)
        self._times = torch.zeros(0, dtype=torch.int64)
        self._waiting: list[Tensor] = []
        self._loose = 0

    @classmethod
    def restored(cls, values: Tensor, times: Tensor, count: int, limit: int = LIMIT) -> Seen:
        """What `values`, `times` and ``count`` of another one say."""
        seen = cls(limit)
        seen.count, seen._values, seen._times = count, values, times
        return seen

    def add(self, values: Tensor) -> None:
        """Values (n,) that came by."""
        self.count += len(values)
        self._waiting.append(values.detach().to("cpu", torch.int64, copy=True))
        self._loose += len(values)
        if self._loose > max(_WAITING, len(self._values)):
            self._compact()

    @property
    def values(self) -> Tensor:
        """The values that are kept, in the order of their keys."""
        self._compact()
        return self._values

    @property
    def times(self) -> Tensor:
        """How often each of them came."""
        self._compact()
        return self._times

    @property
    def repeated(self) -> int:
        """How many of those kept came more than once."""
        return int((self.times > 1).sum())

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return int(self.times.sum()) == self.count

    def comparable(self, other: Seen) -> tuple[int, int]:
        """(how often values came to ``other`` that would be kept here, and how many of these are)."""
        values, times = other.values, other.times
        if not self.whole:
            last = sample_keys(self.values[-1:], _SEED)
            within = sample_keys(values, _SEED) <= last
            values, times = values[within], times[within]
        return int(times.sum()), int(times[torch.isin(values, self.values)].sum())

    def __add__(self, other: Seen) -> Seen:
        merged = Seen(min(self.limit, other.limit))
        merged.count = self.count + other.count
        merged._keep(torch.cat([self.values, other.values]), torch.cat([self.times, other.times]))
        return merged

    def _compact(self) -> None:
        if self._waiting:
            values = torch.cat([self._values, *self._waiting])
            times = torch.cat([self._times, torch.ones(self._loose, dtype=torch.int64)])
            self._waiting, self._loose = [], 0
            self._keep(values, times)

    def _keep(self, values: Tensor, times: Tensor) -> None:
        """A value that is cut off now is cut off for good: what is kept has all its times."""
        distinct, places = torch.unique(values, return_inverse=True)
        counted = torch.zeros_like(distinct).index_add_(0, places, times)
        kept = sample_keys(distinct, _SEED).argsort(stable=True)[: self.limit]
        self._values, self._times = distinct[kept], counted[kept]


def require_apart(one: Seen, other: Seen) -> None:
    """Refuse halves that share samples: their sums would count these twice."""
    _, shared = one.comparable(other)
    if shared:
        raise InputError(
            f"the two halves share samples: {shared:,} ids or more are in both, and what they gave would "
            f"count twice. Either a part was given twice, or parts overlap, or different samples have the "
            f"same id: give every part once, and name data whose samples have the same names together"
        )


def require_each_once(samples: Seen) -> None:
    """Refuse an account in which samples have the same id."""
    if samples.repeated:
        raise InputError(
            f"ids name {samples.repeated:,} samples or more twice: what merges with others needs an id of "
            f"its own for every sample. Of pictures it is their path: a list file may name them by longer "
            f"ones"
        )
