"""Rows that are fitted on must not calibrate as well: found by their numbers, wherever they come from.

Two samples of one source may share rows without being one within the other, where features take few values
(the leaves of trees, a row of zeros). How many they would share is seen in the rows to fit on: as many as
have a twin among themselves. Only what goes beyond that was fitted on.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..features.arrays import ArrayParts, FeatureArray
from ..features.store import FeatureStore, StoreParts
from ..reference.reference import batches

# Share of the calibration data that may be known beyond twins: a data set has a few samples twice.
_TOLERATED = 0.01
# Standard deviations that the share of twins may be off by.
_DEVIATIONS = 4
# What can be read once more at little cost: no loader, no model, no iterator.
_AT_HAND = (Tensor, np.ndarray, list, tuple, FeatureArray, ArrayParts, FeatureStore, StoreParts)
_SEED = 0x5EED


def require_unseen_rows(features: object, calibration: object) -> None:
    """Refuse calibration data of which more rows are fitted on as well than equal rows explain."""
    if not (isinstance(features, _AT_HAND) and isinstance(calibration, _AT_HAND)):
        return
    known, asked = _keys(features), _keys(calibration)
    _, counts = torch.unique(known, return_counts=True)
    twins = float(counts[counts > 1].sum()) / len(known)
    noise = math.sqrt(twins * (1 - twins) * (1 / len(known) + 1 / len(asked)))
    found = int(torch.isin(asked, known).sum())
    if found > (twins + _TOLERATED + _DEVIATIONS * noise) * len(asked):
        raise InputError(
            f"{found:,} of {len(asked):,} rows to calibrate on are fitted on as well: scores of data they "
            f"were fitted on promise nothing. Remedy: calibrate on other samples, or leave the calibration "
            f"data out"
        )


def _keys(data: object) -> Tensor:
    """64 bits for the numbers of each row, the same in every precision that holds them."""
    keys: list[Tensor] = []
    for rows, _, _ in batches(data, None, None, None):  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(_SEED)
        factors = torch.randint(-(2**62), 2**62, (rows.shape[1],), generator=generator) * 2 + 1
        bits = (rows.cpu().double() + 0.0).view(torch.int64)  # plus zero: there are two zeros
        keys.append(((bits ^ (bits >> 29)) * factors).sum(dim=1))
    return torch.cat(keys)
