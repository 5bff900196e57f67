"""Whether data to calibrate several guards on is like the data that each of them was calibrated on.

A finished guard does not keep the rows it was fitted on, so they cannot be compared with. What can be is its
scores: those of data it was fitted on lie above those it was calibrated on, far above where that matters. By
the one-sided two-sample test of Smirnov, of n calibration scores with the distribution F and m new ones with
the distribution G,

    D = max_x F(x) − G(x),   P(D ≥ d) ≈ exp(−2 d² n m / (n + m))

and the new ones are said to be higher where that is below 10⁻⁶; lower with F and G exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.errors import InputError
from .guard import Guard

UNKNOWN = (
    "a finished guard does not keep the rows it was fitted on: that no member was fitted on any of the "
    "samples to calibrate on is for you to know. If one was, new data scores lower, and more of it is "
    "flagged than promised"
)
_LEVEL = 1e-6
# Higher by this share of the samples is refused: a promise would be far off.
_FAR = 0.2


def calibration_doubts(members: Sequence[Guard], scores: Sequence[Tensor]) -> list[str]:
    """Why the promise may be broken; refused where a member's scores say that it was fitted on the data."""
    told = [UNKNOWN]
    for place, (member, new) in enumerate(zip(members, scores, strict=True)):
        known = member.calibration.sorted_scores.cpu()
        above, below = furthest(known, new), furthest(new, known)
        named = f"member {place} ({member.title})"
        if above >= _FAR and _significant(above, known, new):
            raise InputError(
                f"{named} gives the data to calibrate on far higher scores than what it was calibrated on, "
                f"such as data that it was fitted on has (Smirnov's D = {above:.2f}): they promise nothing. "
                f"Remedy: calibrate on samples that no member was fitted on"
            )
        for distance, how in ((above, "higher"), (below, "lower")):
            if _significant(distance, known, new):
                told.append(
                    f"{named} gives the data to calibrate on {how} scores than what it was calibrated on "
                    f"(Smirnov's D = {distance:.2f}): it is other data, and the promise is about data like it"
                )
    return told


def furthest(low: Tensor, high: Tensor) -> float:
    """max_x F(x) − G(x) of the scores ``low`` and ``high``: 1 where all of the one lie below the other."""
    places = torch.cat([low, high])
    shares = [
        torch.searchsorted(part.sort().values, places, right=True).double() / len(part)
        for part in (low, high)
    ]
    return float((shares[0] - shares[1]).max())


def _significant(distance: float, known: Tensor, new: Tensor) -> bool:
    samples = len(known) * len(new) / (len(known) + len(new))
    return math.exp(-2 * distance**2 * samples) < _LEVEL
