"""A guard's calibration in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..guard import Calibration


def threshold_text(calibration: Calibration, rate: float) -> str:
    """The threshold, or where those of the classes lie."""
    of_classes = {calibration.threshold(rate, one) for one in calibration.representatives}
    if len(of_classes) == 1:
        return f"{of_classes.pop():.6g}"
    low, high = min(of_classes), max(of_classes)
    pooled = len(calibration.pooled)
    shared = f", {pooled} small classes share one" if pooled else ""
    return f"{low:.6g} to {high:.6g}, by class{shared}"


def interval_text(calibration: Calibration, rate: float) -> str:
    """Where the guard's own rate lies, or that of the class with the fewest calibration scores."""
    fewest = min(calibration.representatives, key=lambda one: len(calibration.peers(one)))
    low, high = calibration.rate_interval(rate, predicted=fewest)
    whose = "this guard" if len(calibration.representatives) == 1 else "the smallest class"
    return f"{whose}, with probability 0.9, {100 * low:.1f} to {100 * high:.1f} %"
