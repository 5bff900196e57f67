"""Many parts merged in pairs, and the pairs in pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar

from ..core.errors import InputError


class Mergeable(Protocol):
    """What ``+`` makes one of."""

    def __add__(self, other: Self, /) -> Self: ...


Merged = TypeVar("Merged", bound=Mergeable)


def merged_in_pairs(parts: Iterable[Merged], name: str) -> Merged:
    """All parts as one, in the order given.

    Rounding grows with the logarithm of their number, and no more than that many are held in memory: a part
    is taken from the iterable when its turn comes.
    """
    waiting: list[tuple[int, Merged]] = []  # (how many parts it is made of, as a power of two)
    for part in parts:
        size, whole = 0, part
        while waiting and waiting[-1][0] == size:
            whole = waiting.pop()[1] + whole
            size += 1
        waiting.append((size, whole))
    if not waiting:
        raise InputError(f"{name} is empty: there is nothing to merge")
    _, whole = waiting.pop()
    while waiting:
        whole = waiting.pop()[1] + whole
    return whole
