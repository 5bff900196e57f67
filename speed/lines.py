"""One line of the speed suite: what was measured, how far it spread, and the bound it is held to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

RECORD = "THEODOLITE_SPEED_LINES"  # the file that lines are written to, set by suite.py
TIMED_TOLERANCE = 0.10  # what a quiet machine still takes or gives from one run to the next
EXACT_UNITS = ("", "MiB", "GiB")  # counts and memory do not depend on who else is running


class Measured(float):
    """The median of repeated measurements: a number like any other, which still knows its samples."""

    samples: tuple[float, ...]

    def __new__(cls, samples: Iterable[float]) -> Self:
        kept = tuple(float(sample) for sample in samples)
        made = super().__new__(cls, np.median(kept))
        made.samples = kept
        return made

    def quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.samples, (0.25, 0.75))
        return float(low), float(high)

    def turned(self, into: Callable[[float], float]) -> Measured:
        """The same measurements in other terms: `ratio.turned(lambda r: 100 * (r - 1))` is in percent."""
        return Measured(into(sample) for sample in self.samples)


@dataclass(frozen=True)
class Line:
    name: str
    value: float
    unit: str
    quartiles: tuple[float, float] | None = None
    limit: float | None = None
    at_least: bool = False
    tolerance: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether the bound itself holds. A value that is not a number keeps no bound."""
        return self._holds(0.0)

    @property
    def missed(self) -> bool:
        """Whether the bound fails by more than the tolerance."""
        return not self._holds(self.tolerance)

    def _holds(self, tolerance: float) -> bool:
        if self.limit is None:
            return True
        slack = abs(self.limit) * tolerance
        return self.value >= self.limit - slack if self.at_least else self.value <= self.limit + slack

    @property
    def bound(self) -> str:
        return "" if self.limit is None else f"{'at least' if self.at_least else 'at most'} {self.limit:g}"

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "kept" if self.kept else "MISSED" if self.missed else "within tolerance"


def line(
    name: str,
    value: float,
    unit: str,
    *,
    limit: float | None = None,
    at_least: bool = False,
    tolerance: float | None = None,
) -> Line:
    """A line with the quartiles that its value knows of, and its unit's tolerance unless one is given."""
    if tolerance is None:
        tolerance = 0.0 if unit in EXACT_UNITS else TIMED_TOLERANCE
    quartiles = value.quartiles() if isinstance(value, Measured) and len(value.samples) > 1 else None
    return Line(name, float(value), unit, quartiles, limit, at_least, tolerance)


def record(entry: Line | str) -> None:
    """Write a line, or the words of a crash, to the file that the suite reads; alone, a script has none."""
    if path := os.environ.get(RECORD):
        text = json.dumps({"crash": entry} if isinstance(entry, str) else asdict(entry), ensure_ascii=False)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def recorded(path: Path) -> tuple[list[Line], str | None]:
    """The lines of a script in their order, and the words of its crash if it had one."""
    lines, crash = [], None
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        entry = json.loads(text)
        if "crash" in entry:
            crash = entry["crash"]
        else:
            quartiles = entry.pop("quartiles")
            lines.append(Line(**entry, quartiles=None if quartiles is None else tuple(quartiles)))
    return lines, crash
