"""Random Fourier features: a finite map whose inner products are nearly those of a Gaussian kernel.

    φ(x) = √(2/M)·cos(ωx + u),   ω ~ √(2γ)·N(0, 1), u ~ 2π·U(0, 1),   E ⟨φ(x), φ(y)⟩ = exp(−γ‖x − y‖²)

Parts of the data are mapped on machines of their own, so ω and u must not depend on the machine. Each of
their numbers is a function of the seed and its own place: 53 bits by integer arithmetic, the same everywhere
and for every version of NumPy and PyTorch, made normal by a logarithm and a cosine in float64 and rounded to
float32. Machines whose logarithms differ in the last digit of float64 get the same float32 numbers, but for a
last digit in one of 10⁸ or so.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.graphs import fixed
from ..core.once import kept_like
from ..reference.bank import sample_keys

_DROPPED_BITS = 10  # of 63, so that 53 are left: what a float64 holds


class Waves(NamedTuple):
    """ω (M, D) and u (M,), both float32."""

    frequencies: Tensor
    phases: Tensor


@functools.lru_cache(maxsize=2)
def drawn_waves(width: int, components: int, gamma: float, seed: int) -> Waves:
    """The waves for features of a width. Nobody writes to them."""
    count = components * width
    near, around = _uniform(0, count, seed), _uniform(count, count, seed)
    normal = np.sqrt(-2 * np.log(near)) * np.cos(2 * np.pi * around)
    frequencies = np.sqrt(2 * gamma) * normal.reshape(components, width)
    phases = 2 * np.pi * _uniform(2 * count, components, seed)
    return Waves(*(torch.from_numpy(part.astype(np.float32)) for part in (frequencies, phases)))


def fourier_features(rows: Tensor, frequencies: Tensor, phases: Tensor) -> Tensor:
    """φ of rows (n, D), (n, M), in their precision."""
    turned = torch.addmm(kept_like(phases, rows), rows, kept_like(frequencies, rows).T)
    return turned.cos_().mul_((2 / fixed(phases.shape[0])) ** 0.5)


def _uniform(start: int, count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers strictly between 0 and 1, of the places from ``start`` on."""
    bits = sample_keys(torch.arange(start, start + count), seed).numpy() >> _DROPPED_BITS
    return np.asarray((bits + 0.5) / 2.0**53)
