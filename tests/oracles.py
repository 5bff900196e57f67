"""Slow and obvious: the papers' formulas in float64, one sample and one class at a time."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


def projection(z: Vector, w1: Vector, w2: Vector, b1: float, b2: float) -> Vector:
    """Equation 1 of the paper: z on the decision boundary between two classes."""
    normal = w1 - w2
    offset = normal @ z + (b1 - b2)
    return np.asarray(z - offset / np.sum(normal**2) * normal)


def angle(z: Vector, z_db: Vector, mu: Vector) -> float:
    """Equation 2: the angle between z and its projection, seen from mu."""
    u, v = z - mu, z_db - mu
    cosine = u @ v / (np.linalg.norm(u) * np.linalg.norm(v))
    return float(np.arccos(np.clip(cosine, -1, 1)))


def small_angle(z: Vector, z_db: Vector, mu: Vector) -> float:
    """The same angle by Kahan's formula, for angles where the arccos of float64 has lost its digits."""
    u, v = z - mu, z_db - mu
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    return float(2 * np.arctan2(np.linalg.norm(u - v), np.linalg.norm(u + v)))


def ora(
    features: Matrix,
    weight: Matrix,
    bias: Vector,
    centres: Matrix,
    *,
    centre: str = "one",
    aggregate: str = "max",
    measure: Callable[[Vector, Vector, Vector], float] = angle,
) -> Vector:
    """Equation 3. ``centre``: "one" (summed over all rows of centres), "predicted" or "target"."""
    reduce: Callable[[list[float]], float] = {"max": max, "min": min, "mean": statistics.fmean}[aggregate]  # type: ignore[assignment]
    scores = np.zeros(len(features))
    for row, z in enumerate(features):
        p = int(np.argmax(weight @ z + bias))
        others = [c for c in range(len(weight)) if c != p]
        projections = {c: projection(z, weight[p], weight[c], bias[p], bias[c]) for c in others}
        if centre == "predicted":
            scores[row] = reduce([measure(z, projections[c], centres[p]) for c in others])
        elif centre == "target":
            scores[row] = reduce([measure(z, projections[c], centres[c]) for c in others])
        else:
            scores[row] = sum(reduce([measure(z, projections[c], mu) for c in others]) for mu in centres)
    return scores
