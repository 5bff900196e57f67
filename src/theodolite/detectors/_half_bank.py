"""Banks in half precision: float16 in memory and in files, worked in the precision of what is scored.

float16 keeps 11 bits. A unit row is moved by some 2e-4 of its length, less than neighbours are apart in any
features but collapsed ones: those are refused, their differences would be rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.errors import InputError
from ._registry import OptionValue

# Entries are a direction, or one times an energy. Rows whose mean squared distance from their mean is below
# this share of their mean square are too close: float16 would keep fewer than six bits of their differences.
_COLLAPSED = 2.0**-10
_BLOCK_ROWS = 16_384
# Options of banks that version 0.1.0 does not know, where they change nothing.
_LATER: Mapping[str, OptionValue] = {"half_bank": False, "recall": 1.0}


def without_later(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """The options without those that are new and not used: files of such scores are what they always were."""
    return {name: value for name, value in options.items() if name not in _LATER or value != _LATER[name]}


def half_precision(bank: Tensor) -> Tensor:
    """The rows in float16; refused where that would leave little of what tells them apart."""
    require_spread(bank.reshape(-1, *bank.shape[-2:]))
    largest = float(bank.abs().max()) if bank.numel() else 0.0
    if largest > torch.finfo(torch.float16).max:
        raise InputError(
            f"half_bank keeps numbers up to {torch.finfo(torch.float16).max:,.0f}, and an entry of the bank "
            f"is {largest:,.0f}: fit with half_bank=False"
        )
    return bank.to(torch.float16)


def require_spread(banks: Tensor) -> None:
    """Refuse rows (…, B, D) that are nearly the same; copies of one row have nothing to tell apart."""
    for bank in banks:
        mean = bank.mean(dim=0, dtype=torch.float64)
        blocks = bank.split(_BLOCK_ROWS)
        spread = sum(float((block - mean.to(block)).double().square().sum()) for block in blocks)
        square = spread + len(bank) * float(mean.square().sum())
        if spread < _COLLAPSED * square and not bool((bank == bank[0]).all()):
            raise InputError(
                f"half_bank=True would lose what tells these features apart: their directions spread by "
                f"{(spread / square) ** 0.5:.1e}, and float16 rounds a direction by 2e-4. Fit with "
                f"half_bank=False"
            )
