"""From one angle for each other class to one score, with or without weights of the classes.

``"auto"`` takes the mean below `FEW_CLASSES` and the maximum from there on, by the number of classes alone.
What that is worth was measured afterwards (``theodolite reproduce class-count``): the network counts as well,
so the maximum, the paper's choice, stays the default.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..reference.reference import Reference
from ..reference.statistics import Needs
from .boundaries import Margins
from .triangle import Triangle

AGGREGATES = ("max", "mean", "rms", "min", "auto")
CLASS_WEIGHTS = ("variance", "accuracy")
# Fixed before any figure of "auto" was computed, between the numbers of classes where the mean (8) and the
# maximum (1,000) were known to lead.
FEW_CLASSES = 100


def check_aggregation(aggregate: str, class_weights: str | None, *, several_centres: bool) -> None:
    if aggregate not in AGGREGATES:
        raise InputError(f"aggregate must be one of {', '.join(AGGREGATES)}, got {aggregate!r}")
    if class_weights is None:
        return
    if class_weights not in CLASS_WEIGHTS:
        raise InputError(f"class_weights must be one of {', '.join(CLASS_WEIGHTS)}, got {class_weights!r}")
    if aggregate not in ("mean", "rms") and not several_centres:
        raise InputError("class_weights weigh a mean: use aggregate='mean' or 'rms', or centre='sum-classes'")


def chosen_aggregate(aggregate: str, classes: int) -> str:
    """The reduction itself, for so many classes."""
    if aggregate != "auto":
        return aggregate
    return "mean" if classes < FEW_CLASSES else "max"


def aggregate_angles(
    seen: Triangle, margins: Margins, aggregate: str, class_weights: Tensor | None = None
) -> Tensor:
    """(N,) from the angles to all boundaries of the predicted class; 0 where it has none."""
    if aggregate == "max":
        return seen.largest_angle()
    angles, boundary = seen.angles(), margins.reciprocal > 0
    if aggregate == "min":
        smallest = angles.masked_fill(~boundary, torch.inf).amin(dim=1)
        return torch.where(torch.isinf(smallest), 0, smallest)
    weights = boundary.to(angles)
    if class_weights is not None:
        weights = weights * class_weights.to(angles)
    total = weights.sum(dim=1).clamp_min(torch.finfo(angles.dtype).tiny)
    if aggregate == "rms":
        return (angles.square() * weights).sum(dim=1).div(total).sqrt()
    return (angles * weights).sum(dim=1).div(total)


def weight_needs(class_weights: str | None) -> Needs:
    return Needs(class_spread=class_weights == "variance", class_accuracy=class_weights == "accuracy")


def class_reliability(kind: str, reference: Reference) -> Tensor:
    """A weight for each class with mean 1; a class too small to judge weighs as the others do on average."""
    statistics = reference.statistics
    counts = statistics.moments.counts
    if kind == "accuracy":
        known = counts > 0
        worth = statistics.correct.to(counts) / counts.clamp_min(1)
    else:
        assert statistics.moments.spread is not None
        variance = statistics.moments.spread / counts.clamp_min(1)
        known = (counts > 1) & (variance > 0)
        worth = torch.where(known, variance, torch.ones_like(variance)).reciprocal()
    if not bool(known.any()) or not bool(worth[known].sum() > 0):
        return torch.ones_like(worth)
    return torch.where(known, worth / worth[known].mean(), torch.ones_like(worth))
