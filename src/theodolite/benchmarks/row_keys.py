"""The rows of a set by their numbers and pictures: whether two sets share some, whatever they are called.

A row is known by 64 bits of its numbers in half precision, or in the narrower one of the two sides: a model
gives the same picture other last digits in a batch of another size. Rows of a feature store are known by
their pictures as well, which are the same whatever model looks at them. Of many rows those with the smallest
hashes are kept: what two sets share is found among them in the same proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..guard.repeated import HALF, hashed_rows
from ..reference.bank import sample_keys
from .feature_sets import FeatureSet, pictures_of

KEPT = 4096
_SEED = 0x5EED_0A9A
_PIECE = 512
PRECISIONS = (*HALF, torch.float32)
# Rows that are nearly all alike in a precision are too large, too small or too close to each other for it.
_TELLING = 0.5


@dataclass(frozen=True)
class KeptRows:
    """Rows in one precision: whether it ``holds`` them unrounded, and their keys, 16 hexadecimal digits each.

    ``all`` says that none was left out.
    """

    holds: bool
    all: bool
    keys: str

    def shared(self, other: KeptRows) -> float:
        """The share of the rows of the smaller side that the larger has too, as far as both are kept."""
        mine, theirs = (_numbers(side.keys) for side in (self, other))
        for side, numbers in ((self, mine), (other, theirs)):
            if not side.all:
                last = int(sample_keys(numbers, _SEED).max())
                mine, theirs = (part[sample_keys(part, _SEED) <= last] for part in (mine, theirs))
        fewer = min(len(mine), len(theirs))
        return 0.0 if fewer == 0 else int(torch.isin(mine, theirs).sum()) / fewer


@dataclass(frozen=True)
class RowKeys:
    """The keys of a set's rows, by precision; and those of their ``pictures``, where a store knows them."""

    rows: int
    precisions: Mapping[str, KeptRows]
    pictures: KeptRows | None = None

    @classmethod
    def of(cls, rows: FeatureSet, kept: int | None = KEPT) -> RowKeys:
        """Of a set, in one pass; None keeps all."""
        nothing = torch.empty(0, dtype=torch.int64)
        keys = {precision: [nothing] for precision in PRECISIONS}
        holds = dict.fromkeys(PRECISIONS, True)
        for features, _, _ in rows:
            for piece in torch.split(features.cpu(), _PIECE):
                for precision in PRECISIONS:
                    rounded = piece.to(precision)
                    keys[precision].append(hashed_rows(rounded))
                    holds[precision] &= torch.equal(rounded.to(piece.dtype), piece)
        least = _TELLING * len(torch.unique(torch.cat(keys[torch.float32])))
        found = {
            name_of(precision): _kept(torch.cat(parts), holds[precision], kept, least)
            for precision, parts in keys.items()
        }
        pictures = pictures_of(rows)
        return cls(len(rows), found, None if pictures is None else _kept(pictures, True, kept))

    def shared(self, other: RowKeys) -> float:
        """The share of the smaller side that the larger has too: of rows, or of pictures if that is more."""
        both = self.precisions, other.precisions
        coarse, fine, single = map(name_of, PRECISIONS)
        order = [coarse, fine] if any(side[coarse].holds for side in both) else [fine, coarse]
        name = next((one for one in order if all(side[one].keys for side in both)), single)
        rows = both[0][name].shared(both[1][name])
        if self.pictures is None or other.pictures is None:
            return rows
        return max(rows, self.pictures.shared(other.pictures))


def name_of(precision: torch.dtype) -> str:
    """A precision as records call it."""
    return str(precision).removeprefix("torch.")


def _kept(keys: Tensor, holds: bool, kept: int | None, least: float = 0.0) -> KeptRows:
    """The keys with the smallest hashes; none, if fewer than the ``least`` are distinct."""
    distinct = torch.unique(keys)
    if len(distinct) < least:
        return KeptRows(False, True, "")
    chosen = distinct[sample_keys(distinct, _SEED).argsort(stable=True)[:kept]]
    text = " ".join(f"{key & (2**64 - 1):016x}" for key in chosen.tolist())
    return KeptRows(holds, len(chosen) == len(distinct), text)


def _numbers(keys: str) -> Tensor:
    values = (int(key, 16) for key in keys.split())
    return torch.tensor([value - 2**64 if value >= 2**63 else value for value in values], dtype=torch.int64)
