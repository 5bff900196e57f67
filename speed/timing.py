"""Timing as ratios: both sides measured in turn within one run, the median of the paired ratios reported."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType

from lines import RECORD, Measured, line, record


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def pairs(
    work: Callable[[], object], yardstick: Callable[[], object], rounds: int
) -> list[tuple[float, float]]:
    """Seconds of both, back to back, after one warm-up of each; every other pair begins with the yardstick.

    What runs second finds the caches as the first has left them: in turn, neither gains by it.
    """
    work()
    yardstick()
    taken = []
    for turn in range(rounds):
        if turn % 2:
            base = seconds(yardstick)
            taken.append((seconds(work), base))
        else:
            taken.append((seconds(work), seconds(yardstick)))
    return taken


def paired_ratio(
    work: Callable[[], object], yardstick: Callable[[], object], *, rounds: int = 15
) -> Measured:
    """work/yardstick over ``rounds`` back-to-back pairs: the median, which knows its quartiles."""
    return Measured(spent / base for spent, base in pairs(work, yardstick, rounds))


def report(
    name: str,
    value: float,
    unit: str,
    *,
    limit: float | None = None,
    at_least: bool = False,
    tolerance: float | None = None,
) -> bool:
    """Print one line, with its bound beside the figure; returns whether it held within its tolerance.

    Under `make bench` the line is a row of the table. The tolerance is a share of the bound: 10 % of what is
    timed, none of counts and memory, unless one is given.
    """
    made = line(name, value, unit, limit=limit, at_least=at_least, tolerance=tolerance)
    record(made)
    spread = "" if made.quartiles is None else " [{:.2f}, {:.2f}]".format(*made.quartiles)
    promise = f"   ({made.bound}: {made.verdict})" if made.bound else ""
    print(f"{name:<64} {value:8.2f} {unit}{spread}{promise}", flush=True)
    return not made.missed


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell the suite: of a script that ends with code 1 it could not know whether all its lines are there."""
    record(f"{kind.__name__}: {error}")
    sys.__excepthook__(kind, error, trace)


if RECORD in os.environ:
    sys.excepthook = _crashed
