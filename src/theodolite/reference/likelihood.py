"""How likely the labels are at every temperature, as sums that merge, and the temperature where most so.

With β = 1/T the negative log-likelihood of the labels, F(β) = Σ_i [log Σ_c exp(β·l_ic) − β·l_iy], is convex,
and its derivatives are cumulants of the logits under the softmax:

    F′ = Σ_i (E[l] − l_y),   F″ = Σ_i Var[l],   F‴ = Σ_i E[(l − E[l])³]

These three are summed at fixed temperatures, four an octave from 1/4096 to 4096. Between two of them F′ is
the polynomial of degree five that has their values: the temperature is known to 1e-6 of itself, and the rows
are read once. Rows, those of them answered right, and F′ at β = 0 say why there is none, where there is none.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..core.errors import InputError

_STEPS_AN_OCTAVE = 4
_OCTAVES = 12
# exp(2βd) is the square of exp(βd): squared so often before the next exponential, 2.5e-13 of it are lost.
_SQUARINGS = 8
# Entries of a tile with its powers: 8 MiB of float64.
_TILE_ENTRIES = 2**20

HIGHEST = 2.0**_OCTAVES
LOWEST = 2.0**-_OCTAVES
# β, and its logarithm, from the highest temperature to the lowest.
_LOGS = torch.arange(-_OCTAVES * _STEPS_AN_OCTAVE, _OCTAVES * _STEPS_AN_OCTAVE + 1, dtype=torch.float64)
_LOGS = _LOGS * (math.log(2) / _STEPS_AN_OCTAVE)
SHAPE = (3, len(_LOGS))
FACTS = (3,)
_OUTSIDE = (
    "the temperature of the highest likelihood lies outside 1/4096..4096, {} it: scale the head, its weight "
    "and its bias, so that logits differ by about 1 to 100"
)


class Likelihood:
    """F′, F″ and F‴ of the rows so far, at every temperature of the grid: ``sums`` (3, 97).

    ``facts`` (3,) are the rows, those of them that are answered right, and F′ without any temperature, β = 0;
    NaN where a file does not say.
    """

    def __init__(self) -> None:
        self.sums = torch.zeros(SHAPE, dtype=torch.float64)
        self.facts = torch.zeros(FACTS, dtype=torch.float64)

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Add logits (n, C) with their labels (n,)."""
        classes = logits.shape[1]
        labels = labels.to(logits.device)
        for start in range(0, len(logits), max(1, _TILE_ENTRIES // (4 * classes))):
            part = slice(start, start + max(1, _TILE_ENTRIES // (4 * classes)))
            rows = logits[part].double()
            self.sums += _cumulants(rows, labels[part]).cpu()
            own = rows.gather(1, labels[part][:, None])[:, 0]
            right, slope = (own == rows.amax(dim=1)).sum(), (rows.mean(dim=1) - own).sum()
            self.facts += torch.stack([torch.full_like(slope, len(rows)), right.to(slope), slope]).cpu()

    def merge(self, other: Likelihood) -> None:
        """Add what other rows gave."""
        self.sums += other.sums
        self.facts += other.facts

    def temperature(self) -> float | None:
        """Where the labels are most likely; None where every row is answered right, and they grow likelier
        without end as the temperature falls. Labels that are no likelier at any temperature than by chance
        are refused, and a temperature beyond the grid.
        """
        slopes = self.sums[0]
        if not bool(torch.isfinite(self.sums).all()):
            raise OverflowError("likelihoods hold NaN or infinity")
        rows, right, by_chance = self.facts.tolist()
        if math.isnan(rows) and bool((slopes[0] >= 0) | (slopes[-1] <= 0)):
            raise InputError(
                "no temperature in 1/4096..4096 is likeliest, and the reference is of a version that did not "
                "count why: collect it again"
            )
        if bool(slopes[0] >= 0):
            if not by_chance >= 0:
                raise InputError(_OUTSIDE.format("above"))
            raise InputError(
                "the labels have no temperature: they are as likely by chance as by the head's answers, at "
                "every temperature. Are they the labels of these features, and is it their head?"
            )
        if bool(slopes[-1] <= 0):
            if not right == rows:
                raise InputError(_OUTSIDE.format("below"))
            return None
        place = int((slopes <= 0).nonzero().max())
        return math.exp(-_root(self.sums[:, place : place + 2], _LOGS[place : place + 2]))


def _cumulants(logits: Tensor, labels: Tensor) -> Tensor:
    """Sums over the rows (3, temperatures)."""
    below = logits - logits.amax(dim=1, keepdim=True)
    own = below.gather(1, labels[:, None])[:, 0]
    powers = torch.stack([torch.ones_like(below), below, below.square(), below**3], dim=1)
    found = torch.empty(SHAPE, dtype=torch.float64, device=logits.device)
    for phase in range(_STEPS_AN_OCTAVE):
        weights = below
        for octave, place in enumerate(range(phase, SHAPE[1], _STEPS_AN_OCTAVE)):
            if octave % _SQUARINGS == 0:
                weights = (below * math.exp(float(_LOGS[place]))).exp()
            else:
                weights = weights.square()
            raw = torch.bmm(powers, weights[:, :, None])[:, :, 0]
            first, second, third = (raw[:, 1:] / raw[:, :1]).unbind(1)
            found[0, place] = (first - own).sum()
            found[1, place] = (second - first.square()).sum()
            found[2, place] = (third - 3 * first * second + 2 * first**3).sum()
    return found


def _root(ends: Tensor, logs: Tensor) -> float:
    """log β between two temperatures (3, 2) where F′ changes its sign, by halving."""
    start, stop = float(logs[0]), float(logs[1])
    step = stop - start
    # Derivatives of F′ by x, where log β = start + x·step.
    inverse = logs.exp()
    once = ends[1] * inverse * step
    twice = (ends[1] * inverse + ends[2] * inverse.square()) * step**2
    values = torch.stack([ends[0], once, twice / 2], dim=1).flatten().tolist()
    low, high = 0.0, 1.0
    while high - low > 1e-15:
        middle = (low + high) / 2
        if _between(middle, values) <= 0:
            low = middle
        else:
            high = middle
    return start + step * (low + high) / 2


def _between(x: float, values: list[float]) -> float:
    """The polynomial of degree five on 0..1 with these values, slopes and half curvatures at 0 and at 1."""
    v0, s0, c0, v1, s1, c1 = values
    # In powers of x; what is missing at 1 makes up the last three.
    value, slope, curve = v1 - v0 - s0 - c0, s1 - s0 - 2 * c0, c1 - c0
    cubic = 10 * value - 4 * slope + curve
    quartic = -15 * value + 7 * slope - 2 * curve
    quintic = 6 * value - 3 * slope + curve
    return v0 + x * (s0 + x * (c0 + x * (cubic + x * (quartic + x * quintic))))
