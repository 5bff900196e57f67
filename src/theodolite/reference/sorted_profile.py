"""The sorted profile of a stream: the mean of the rows after each is sorted, as a sum that merges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from .looks import Look
from .storage import take

# Entries that are sorted at once.
_AT_ONCE = 2**22


class SortedProfile(Look):
    """The sum of sorted rows (D,), least entry first, and how many they are."""

    name = "profile"

    def __init__(self) -> None:
        self.rows = 0
        self.total = torch.zeros(0, dtype=torch.float64)

    def update(self, features: Tensor) -> None:
        width = features.shape[1]
        if self.rows == 0:
            self.total = torch.zeros(width, dtype=torch.float64)
        elif len(self.total) != width:
            raise InputError(f"features have width {width}, those before had {len(self.total)}")
        self.rows += len(features)
        for part in torch.split(features, max(1, _AT_ONCE // width)):
            self.total += part.sort(dim=1).values.sum(dim=0, dtype=torch.float64).cpu()

    def __add__(self, other: SortedProfile) -> SortedProfile:
        if self.rows and other.rows and len(self.total) != len(other.total):
            raise InputError(
                f"the two looks are at features of width {len(self.total)} and {len(other.total)}"
            )
        merged = SortedProfile()
        merged.rows = self.rows + other.rows
        parts = [look.total for look in (self, other) if look.rows]
        merged.total = torch.stack(parts).sum(dim=0) if parts else self.total
        return merged

    def packed(self) -> dict[str, Tensor]:
        return {"total": self.total, "rows": torch.tensor([self.rows])}

    @classmethod
    def unpacked(cls, tensors: Mapping[str, Tensor]) -> Self:
        look = cls()
        look.total = take(tensors, "total", (len(tensors.get("total", ())),), torch.float64)
        look.rows = int(take(tensors, "rows", (1,), torch.int64))
        if look.rows < 0 or bool(look.rows) != bool(len(look.total)):
            raise FormatError(f"its profile of {look.rows} rows has {len(look.total)} entries")
        return look

    @property
    def mean(self) -> Tensor:
        """The profile, (D,) in float64."""
        return self.total / self.rows
