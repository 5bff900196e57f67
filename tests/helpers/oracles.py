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


def softmax(logits: Vector) -> Vector:
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def energy(logits: Vector, temperature: float = 1.0) -> float:
    peak = logits.max()
    return float(peak + temperature * np.log(np.sum(np.exp((logits - peak) / temperature))))


def cosine(a: Vector, b: Vector) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def pinv(covariance: Matrix) -> Matrix:
    """The pseudo-inverse with the stated tolerance: variances below D·ε of the largest are flat."""
    tolerance = len(covariance) * np.finfo(np.float64).eps
    return np.asarray(np.linalg.pinv(covariance, rcond=tolerance, hermitian=True))


def unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


class Scores:
    """Every score from its formula, one sample at a time, for a head and ID training data."""

    def __init__(self, weight: Matrix, bias: Vector, train: Matrix, labels: Matrix) -> None:
        self.weight, self.bias, self.train, self.labels = weight, bias, train, labels
        self.classes = np.unique(labels)
        self.mean = train.mean(axis=0)

    def logits(self, z: Vector) -> Vector:
        return np.asarray(self.weight @ z + self.bias)

    def _distances(self, z: Vector) -> list[float]:
        logits = self.logits(z)
        p = int(np.argmax(logits))
        return [
            float((logits[p] - logits[c]) / np.linalg.norm(self.weight[p] - self.weight[c]))
            for c in range(len(logits))
            if c != p
        ]

    def ora(self, z: Vector) -> float:
        return float(ora(z[None], self.weight, self.bias, self.mean[None])[0])

    def fdbd(self, z: Vector) -> float:
        return statistics.fmean(self._distances(z)) / float(np.linalg.norm(z - self.mean))

    def distance(self, z: Vector) -> float:
        return max(self._distances(z))

    def msp(self, z: Vector) -> float:
        return float(softmax(self.logits(z)).max())

    def maxlogit(self, z: Vector) -> float:
        return float(self.logits(z).max())

    def energy(self, z: Vector) -> float:
        return energy(self.logits(z))

    def odin(self, z: Vector) -> float:
        return float(softmax(self.logits(z) / 1000).max())

    def _class_distances(self, z: Vector, rows: Matrix) -> list[float]:
        means = {c: rows[self.labels == c].mean(axis=0) for c in self.classes}
        centred = np.stack([row - means[c] for row, c in zip(rows, self.labels, strict=True)])
        inverse = pinv(centred.T @ centred / len(rows))
        return [float((z - mu) @ inverse @ (z - mu)) for mu in means.values()]

    def mds(self, z: Vector) -> float:
        return -min(self._class_distances(z, self.train))

    def maha_plus(self, z: Vector) -> float:
        return -min(self._class_distances(z / np.linalg.norm(z), unit(self.train)))

    def rmds(self, z: Vector) -> float:
        centred = self.train - self.mean
        background = pinv(centred.T @ centred / len(self.train))
        shared = float((z - self.mean) @ background @ (z - self.mean))
        return -min(distance - shared for distance in self._class_distances(z, self.train))

    def ssd_plus(self, z: Vector) -> float:
        rows = unit(self.train)
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        rows, x = (rows - mean) / spread, (z / np.linalg.norm(z) - mean) / spread
        distances = []
        for c in self.classes:
            own = rows[self.labels == c]
            inverse = pinv(np.cov(own.T, bias=True))
            distances.append(float((x - own.mean(axis=0)) @ inverse @ (x - own.mean(axis=0))))
        return -min(distances)

    def _class_cosines(self, z: Vector) -> Vector:
        return np.array([cosine(z, self.train[self.labels == c].mean(axis=0)) for c in self.classes])

    def pcos(self, z: Vector) -> float:
        return float(self._class_cosines(z).max())

    def rcos(self, z: Vector) -> float:
        return float(softmax(self._class_cosines(z)).max())

    def knn(self, z: Vector, k: int = 50) -> float:
        distances = [float(np.linalg.norm(z / np.linalg.norm(z) - row)) for row in unit(self.train)]
        return -sorted(distances)[k - 1]

    def nnguide(self, z: Vector, k: int = 10) -> float:
        guides = [energy(self.logits(row)) * cosine(z, row) for row in self.train]
        return energy(self.logits(z)) * statistics.fmean(sorted(guides)[-k:])

    def csi(self, z: Vector) -> float:
        nearest = max(cosine(z, row) for row in self.train)
        return float(nearest * np.linalg.norm(z) / np.linalg.norm(self.train, axis=1).mean())

    def nci(self, z: Vector) -> float:
        p = int(np.argmax(self.logits(z)))
        away = z - self.mean
        return float(self.weight[p] @ away / np.linalg.norm(away) + 1e-4 * np.abs(z).sum())

    def neco(self, z: Vector) -> float:
        spread = self.train.std(axis=0)
        standard, x = (self.train - self.mean) / spread, (z - self.mean) / spread
        _, sizes, directions = np.linalg.svd(standard, full_matrices=False)
        explained = np.cumsum(sizes**2) / np.sum(sizes**2)
        count = int(np.argmax(explained >= 0.9)) + 1
        share = np.linalg.norm(directions[:count] @ x) / np.linalg.norm(x)
        return float(share * self.logits(z).max())

    def vim(self, z: Vector, dimension: int) -> float:
        origin = -np.linalg.pinv(self.weight) @ self.bias
        moved = self.train - origin
        _, directions = np.linalg.eigh(moved.T @ moved / len(moved))
        residual = directions[:, : len(z) - dimension]
        outside = np.linalg.norm(moved @ residual, axis=1)
        alpha = sum(self.logits(row).max() for row in self.train) / outside.sum()
        return float(energy(self.logits(z)) - alpha * np.linalg.norm((z - origin) @ residual))

    def relative_energy(self, z: Vector) -> float:
        width, count = len(z), len(self.train)
        centred = self.train - self.mean
        sigma = centred.T @ centred / count
        scale, power = np.trace(sigma) / width, np.mean(sigma**2)
        rho = min(1.0, (power + scale**2) / ((count + 1) * (power - scale**2 / width)))
        shrunk = (1 - rho) * sigma + rho * scale * np.eye(width)
        away = z - self.mean
        logits = self.logits(z)
        return float(energy(logits - logits.mean()) / np.sqrt(away @ np.linalg.solve(shrunk, away)))

    def mcm(self, z: Vector) -> float:
        return float(softmax(np.array([cosine(z, text) for text in self.weight])).max())
