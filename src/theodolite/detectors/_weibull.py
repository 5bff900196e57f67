"""Weibull distributions of the largest of some distances, one for every class.

    P(D ≤ x) = 1 − exp(−(y/λ)^κ),   y = x − x₀ + 10,000, x₀ the smallest of the tail

κ and λ are those of the highest likelihood. The shift is that of libMR, the library behind OpenMax: with it κ
is in the thousands, and in y the distribution is all but Gumbel's of the smallest value.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SHIFT = 10_000.0
# A tail without spread would have an infinite shape: this one rises within 1e-5.
_STEEPEST = 1e9
# The shape lies between 1/(u₁ − ū), u₁ the largest and ū the mean of u = log(y/10,000), and so many times
# that: it takes about log n times for a tail of n distances, whatever they are.
_WIDEST = 64.0
_HALVINGS = 64
# Where y would not be positive, (y − 10,000)/10,000 counts as this.
_NEAREST = -1 + 1e-6


class Tails(NamedTuple):
    """Of each class the smallest distance x₀ of its tail, the shape κ and log(λ/10,000), (C,) in float64."""

    start: Tensor
    shape: Tensor
    log_scale: Tensor


def largest_of_each(distances: Tensor, classes: Tensor, count: int, tail: int) -> Tensor:
    """The ``tail`` largest distances (n,) of each of ``count`` classes; NaN where there are fewer."""
    order = distances.argsort(descending=True, stable=True)
    order = order[classes[order].argsort(stable=True)]
    sizes = torch.bincount(classes, minlength=count)
    places = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[classes[order]]
    kept = places < tail
    found = torch.full((count, tail), torch.nan, dtype=distances.dtype)
    found[classes[order][kept], places[kept]] = distances[order][kept]
    return found


def fitted_tails(largest: Tensor) -> Tails:
    """Of tails (C, tail) in float64 with NaN where there is no distance; a class without any has zeros."""
    there = ~torch.isnan(largest)
    sizes = there.sum(dim=1).clamp_min(1)
    start = largest.nan_to_num(torch.inf).amin(dim=1)
    start = torch.where(torch.isinf(start), 0, start)
    logs = torch.where(there, torch.log1p((largest - start[:, None]) / SHIFT), 0)
    top = logs.amax(dim=1)
    spread = top - logs.sum(dim=1) / sizes
    low = spread.clamp_min(1 / _STEEPEST).reciprocal()
    high = _WIDEST * low

    def weights(shape: Tensor) -> Tensor:
        return torch.where(there, (shape[:, None] * (logs - top[:, None])).exp(), 0)

    for _ in range(_HALVINGS):
        shape = (low * high).sqrt()
        weight = weights(shape)
        # ∂/∂κ of the likelihood of n distances, over −n: it grows with κ.
        lean = spread - ((top[:, None] - logs) * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1)
        rising = lean > shape.reciprocal()
        low, high = torch.where(rising, low, shape), torch.where(rising, shape, high)
    shape = high.clamp_max(_STEEPEST)
    mean = weights(shape).sum(dim=1) / sizes
    log_scale = top + torch.where(mean > 0, mean.log(), 0) / shape
    return Tails(start, shape, log_scale)


def at_most(distance: Tensor, tails: Tails) -> Tensor:
    """P(D ≤ x) of distances, each by the tail that stands at its place."""
    beyond = ((distance - tails.start) / SHIFT).clamp_min(_NEAREST)
    return 1 - (-(tails.shape * (torch.log1p(beyond) - tails.log_scale)).exp()).exp()
