"""Timing as ratios: both sides measured in turn within one run, the median of the paired ratios reported."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def paired_ratio(work: Callable[[], object], yardstick: Callable[[], object], *, rounds: int = 15) -> float:
    """Median of work/yardstick over ``rounds`` back-to-back pairs, after one warm-up of each."""
    work()
    yardstick()
    ratios = []
    for _ in range(rounds):
        base = seconds(yardstick)
        ratios.append(seconds(work) / base)
    return statistics.median(ratios)


def report(name: str, value: float, unit: str, *, limit: float | None = None, at_least: bool = False) -> bool:
    """Print one line, with the promise beside the figure; returns whether it was kept."""
    kept = limit is None or (value >= limit if at_least else value <= limit)
    promise = (
        ""
        if limit is None
        else f"   ({'at least' if at_least else 'at most'} {limit:g}: {'kept' if kept else 'BROKEN'})"
    )
    print(f"{name:<64} {value:8.2f} {unit}{promise}")
    return kept
