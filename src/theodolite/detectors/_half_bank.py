"""Banks in half precision: float16 in memory and in files, worked in the precision of what is scored.

float16 keeps 11 bits of numbers from 6e-5 to 65,504. A unit row is moved by some 2e-4 of its length, less
than neighbours are apart in any features but collapsed ones. Where the rounding is no small part of what
tells the rows apart, the bank is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.errors import InputError
from ._registry import OptionValue

# What the rounding may be of the rows' distance from their mean, as mean squares: 1/181, some seven bits.
_ROUNDED = 2.0**-15
_BLOCK_ROWS = 16_384
# Options of banks that version 0.1.0 does not know, where they change nothing.
_LATER: Mapping[str, OptionValue] = {"half_bank": False, "recall": 1.0}


def without_later(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """The options without those that are new and not used: files of such scores are what they always were."""
    return {name: value for name, value in options.items() if name not in _LATER or value != _LATER[name]}


def half_precision(bank: Tensor) -> Tensor:
    """The rows (…, B, D) in float16; refused where that would leave little of what tells them apart."""
    rounded = bank.to(torch.float16)
    for rows, kept in zip(
        bank.reshape(-1, *bank.shape[-2:]), rounded.view(-1, *bank.shape[-2:]), strict=True
    ):
        _require_apart(rows, kept)
    return rounded


def _require_apart(rows: Tensor, rounded: Tensor) -> None:
    """Copies of one row have nothing to tell apart, and nothing to lose but their range."""
    mean = rows.mean(dim=0, dtype=torch.float64)
    spread = error = 0.0
    for block, kept in zip(*(torch.split(part, _BLOCK_ROWS) for part in (rows, rounded)), strict=True):
        spread += float((block - mean).square().sum())
        error += float((kept.double() - block).square().sum())
    alike = error < torch.inf and bool((rows == rows[0]).all())
    if error > _ROUNDED * spread and not alike:
        moved, apart = (error / len(rows)) ** 0.5, (spread / len(rows)) ** 0.5
        raise InputError(
            f"half_bank=True would lose what tells these features apart: float16 moves rows of the bank by "
            f"{moved:.1e}, and they are {apart:.1e} from their mean. Fit with half_bank=False"
        )
