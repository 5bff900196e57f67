"""Scores by what lies outside a space, from their formulas: R-Mah+, Residual, CoP and CoRP."""

from __future__ import annotations

import numpy as np

from oracles import Matrix, Scores, Vector, unit
from theodolite.geometry.fourier import drawn_waves


def rmaha_plus(scores: Scores, z: Vector) -> float:
    """R-Mah of data that was divided by its norms beforehand."""
    on_sphere = Scores(scores.weight, scores.bias, unit(scores.train), scores.labels)
    return on_sphere.rmds(z / np.linalg.norm(z))


def residual(scores: Scores, z: Vector, dimension: int) -> float:
    origin = -np.linalg.pinv(scores.weight) @ scores.bias
    moved = scores.train - origin
    _, _, directions = np.linalg.svd(moved, full_matrices=False)
    return -float(np.linalg.norm(directions[dimension:] @ (z - origin)))


def reconstruction_error(train: Matrix, z: Vector, variance: float) -> float:
    """‖Φ − UUᵀΦ‖ of mapped rows: as many directions as the smallest i with s_1 + … + s_i ≥ variance·Σ s."""
    mean = train.mean(axis=0)
    _, sizes, directions = np.linalg.svd(train - mean, full_matrices=False)
    shares = sizes**2 / np.sum(sizes**2)
    count = next(i for i in range(1, len(shares) + 1) if shares[:i].sum() >= variance)
    kept = directions[:count]
    away = z - mean
    return float(np.linalg.norm(away - kept.T @ (kept @ away)))


def cop(scores: Scores, z: Vector, variance: float = 0.85) -> float:
    return -reconstruction_error(unit(scores.train), z / np.linalg.norm(z), variance)


def corp(
    scores: Scores, z: Vector, *, gamma: float = 2.0, components: int = 2048, variance: float = 0.8
) -> float:
    """With the waves of the map as they are drawn; that they are what they should be is a test of its own."""
    waves = drawn_waves(len(z), components, gamma, 0)
    omega, phase = waves.frequencies.double().numpy(), waves.phases.double().numpy()

    def mapped(rows: Matrix) -> Matrix:
        return np.asarray(np.sqrt(2 / components) * np.cos(rows @ omega.T + phase))

    return -reconstruction_error(mapped(unit(scores.train)), mapped(unit(z[None]))[0], variance)
