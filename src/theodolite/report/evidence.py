"""Evidence as it is told: its course in bounded memory, and its size in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..core.arrays import FloatArray

_POINTS = 2_048
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass
class Trace:
    """The course of the evidence in bounded memory: the highest of every ``stride`` samples, ``first`` on."""

    first: int = 1
    stride: int = 1
    highest: list[float] = field(default_factory=list)
    _open: int = 0

    def add(self, evidence: FloatArray) -> None:
        """The evidence after each of the next samples."""
        for value in evidence.tolist():
            if self._open == 0:
                self.highest.append(value)
            else:
                self.highest[-1] = max(self.highest[-1], value)
            self._open = (self._open + 1) % self.stride
            if len(self.highest) == 2 * _POINTS and self._open == 0:
                pairs = np.array(self.highest).reshape(-1, 2)
                self.highest, self.stride = pairs.max(axis=1).tolist(), 2 * self.stride

    @property
    def samples(self) -> FloatArray:
        """The number of the first sample of every stride."""
        return self.first + self.stride * np.arange(len(self.highest), dtype=np.float64)


def odds_text(power: float) -> str:
    """10 to a power: 0.25, 63, 12,000 and, beyond a million or below a thousandth, 10⁻³⁴·⁵."""
    if not math.isfinite(power):
        return "0" if power < 0 else "∞"
    if -3 <= power < 6:
        value = 10.0**power
        return f"{float(f'{value:.2g}'):,.10g}"
    whole = f"{power:.1f}".removesuffix(".0").translate(_RAISED).replace(".", "·")
    return f"10{whole}"
