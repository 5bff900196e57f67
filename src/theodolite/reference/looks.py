"""Looks: what a first pass over the features counts, for shapings that learn before any statistics are taken.

A look has `update(rows)` and ``+``, travels as tensors in a part's file, and does not grow with the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor


class Look(ABC):
    """One kind of count; ``a + b`` is that of both streams."""

    name: ClassVar[str]  # of its kind, and of its tensors in a file

    @abstractmethod
    def update(self, features: Tensor) -> None:
        """Add rows (n, D)."""

    @abstractmethod
    def __add__(self, other: Self) -> Self: ...

    @abstractmethod
    def packed(self) -> dict[str, Tensor]:
        """As tensors, for a file."""

    @classmethod
    @abstractmethod
    def unpacked(cls, tensors: Mapping[str, Tensor]) -> Self:
        """What `packed` gave; refused if it cannot be."""
