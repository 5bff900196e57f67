"""The rows of a set by their numbers: whether two sets share rows, whatever they are called and kept in.

A row is known by 64 bits of its numbers, rounded to the narrower precision of the two sides. Of many rows
those with the smallest hashes are kept: what two sets share is found among them in the same proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..guard.repeated import EXACT, hashed_rows, narrowest
from ..reference.bank import sample_keys
from .feature_sets import FeatureSet

KEPT = 256
_SEED = 0x5EED_0A9A
_PIECE = 512


@dataclass(frozen=True)
class KeptRows:
    """Rows in one precision: whether it ``holds`` them unrounded, and their keys, 16 hexadecimal digits each.

    ``all`` says that none was left out.
    """

    holds: bool
    all: bool
    keys: str


@dataclass(frozen=True)
class RowKeys:
    """The keys of a set's rows, by precision."""

    rows: int
    precisions: Mapping[str, KeptRows]

    @classmethod
    def of(cls, rows: FeatureSet, kept: int | None = KEPT) -> RowKeys:
        """Of a set, in one pass; None keeps all."""
        keys: dict[torch.dtype, list[Tensor]] = {precision: [] for precision in EXACT}
        holds = dict.fromkeys(EXACT, True)
        for features, _, _ in rows:
            for piece in torch.split(features.cpu(), _PIECE):
                for precision in EXACT:
                    if precision.itemsize > piece.dtype.itemsize:
                        holds[precision] = False
                        continue
                    rounded = piece.to(precision)
                    keys[precision].append(hashed_rows(rounded))
                    holds[precision] &= torch.equal(rounded.to(piece.dtype), piece)
        return cls(
            len(rows),
            {
                _name(precision): _kept(torch.cat(parts), holds[precision], kept)
                if parts
                else KeptRows(False, True, "")
                for precision, parts in keys.items()
            },
        )

    def shared(self, other: RowKeys) -> float:
        """The share of the rows of the smaller side that the larger has too, as far as both are kept."""
        name = list(self.precisions)[min(self._narrowest(), other._narrowest())]
        mine, theirs = (_numbers(side.precisions[name].keys) for side in (self, other))
        for side, numbers in ((self, mine), (other, theirs)):
            if not side.precisions[name].all:
                last = int(sample_keys(numbers, _SEED).max())
                mine, theirs = (part[sample_keys(part, _SEED) <= last] for part in (mine, theirs))
        fewer = min(len(mine), len(theirs))
        return 0.0 if fewer == 0 else int(torch.isin(mine, theirs).sum()) / fewer

    def _narrowest(self) -> int:
        return narrowest(
            {dtype: kept.holds for dtype, kept in zip(EXACT, self.precisions.values(), strict=True)}
        )


def _kept(keys: Tensor, holds: bool, kept: int | None) -> KeptRows:
    distinct = torch.unique(keys)
    chosen = distinct[sample_keys(distinct, _SEED).argsort(stable=True)[:kept]]
    text = " ".join(f"{key & (2**64 - 1):016x}" for key in chosen.tolist())
    return KeptRows(holds, len(chosen) == len(distinct), text)


def _numbers(keys: str) -> Tensor:
    values = (int(key, 16) for key in keys.split())
    return torch.tensor([value - 2**64 if value >= 2**63 else value for value in values], dtype=torch.int64)


def _name(precision: torch.dtype) -> str:
    return str(precision).removeprefix("torch.")
