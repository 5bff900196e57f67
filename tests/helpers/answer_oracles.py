"""Scores of what the head answers, from their formulas in float64: slow and obvious."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from oracles import Matrix, Scores, Vector, energy, softmax


def weibull(distances: list[float]) -> tuple[float, float]:
    """Shape and scale of the highest likelihood: the shape where its slope is zero, by halving."""
    values = np.array(distances)
    logs = np.log(values)

    def slope(shape: float) -> float:
        powers = (values / values.max()) ** shape
        return float(powers @ logs / powers.sum() - 1 / shape - logs.mean())

    low, high = 1e-3, 1e9
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    scale = values.max() * np.mean((values / values.max()) ** low) ** (1 / low)
    return low, float(scale)


class Answers:
    """The scores, one sample at a time, for a head and ID training data."""

    def __init__(self, known: Scores) -> None:
        self.weight, self.bias = known.weight, known.bias
        self.train, self.labels = known.train, known.labels
        self.logits = known.logits
        self.classes = len(self.weight)
        self.train_logits = [self.logits(row) for row in self.train]
        self.answers = [int(np.argmax(logits)) for logits in self.train_logits]

    def entropy(self, z: Vector) -> float:
        return float(sum(p * math.log(p) for p in softmax(self.logits(z)) if p > 0))

    def gen(self, z: Vector, top: int = 100) -> float:
        logits = self.logits(z)
        powers = np.exp(logits - logits.max())
        total = 0.0
        for c in np.argsort(-logits)[:top]:
            others = sum(powers[k] for k in range(self.classes) if k != c)
            total += (powers[c] / powers.sum()) ** 0.1 * (others / powers.sum()) ** 0.1
        return -float(total)

    def logit_gap(self, z: Vector) -> float:
        first, *others = sorted(self.logits(z), reverse=True)
        return float(first - np.mean(others))

    def grad_norm(self, z: Vector) -> float:
        p = softmax(self.logits(z))
        gradient = [[z_d * (self.classes * p_c - 1) for z_d in z] for p_c in p]
        return float(np.abs(gradient).sum())

    def lts(self, z: Vector) -> float:
        active = np.maximum(z, 0)
        kept = max(1, len(z) - round(len(z) * 0.95))
        scale = (active.sum() / np.sort(active)[-kept:].sum()) ** 2
        return energy(scale * self.logits(z))

    def _right(self, c: int) -> Matrix:
        pairs = zip(self.train, self.answers, self.labels, strict=True)
        return np.array([row for row, answer, label in pairs if answer == label == c])

    def she(self, z: Vector) -> float:
        return float(z @ self._right(int(np.argmax(self.logits(z)))).mean(axis=0))

    def klm(self, z: Vector) -> float:
        p = softmax(self.logits(z))
        divergences = []
        for k in set(self.answers):
            own = [
                softmax(logits)
                for logits, answer in zip(self.train_logits, self.answers, strict=True)
                if answer == k
            ]
            typical = np.mean(own, axis=0)
            divergences.append(sum(p[c] * math.log(p[c] / typical[c]) for c in range(self.classes)))
        return float(-min(divergences))

    def dice(self, z: Vector) -> float:
        shares = self.weight * self.train.mean(axis=0)
        kept = shares > np.percentile(shares, 90)
        return energy((self.weight * kept) @ z + self.bias)

    def tempscale(self, z: Vector) -> float:
        return math.log(softmax(self.logits(z) / self.temperature).max())

    @functools.cached_property
    def temperature(self) -> float:
        """Where the slope of the likelihood in 1/T is zero; 1 where all answers are right."""
        if all(answer == label for answer, label in zip(self.answers, self.labels, strict=True)):
            return 1.0

        def slope(inverse: float) -> float:
            rows = zip(self.train_logits, self.labels, strict=True)
            return float(sum(softmax(inverse * row) @ row - row[label] for row, label in rows))

        low, high = 1e-3, 1e3
        for _ in range(100):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
        return 1 / low

    def openmax(self, z: Vector, tail: int = 20, alpha: int = 3) -> float:
        logits = self.logits(z)
        revised, unknown = list(logits), 0.0
        for place, c in enumerate(np.argsort(-logits)[:alpha]):
            own = [self.logits(row) for row in self._right(int(c))]
            centre = np.mean(own, axis=0)
            largest = sorted(float(np.linalg.norm(row - centre)) for row in own)[-tail:]
            shape, scale = weibull([distance - largest[0] + 10_000 for distance in largest])
            y = float(np.linalg.norm(logits - centre)) - largest[0] + 10_000
            far = 1 - math.exp(-((y / scale) ** shape))
            taken = logits[c] * far * (alpha - place) / alpha
            revised[c] -= taken
            unknown += taken
        return math.log(sum(math.exp(value - unknown) for value in revised))


_last: list[tuple[Scores, Answers]] = []


def oracle(score: Callable[[Answers, Vector], float]) -> Callable[[Scores, Vector], float]:
    """As the table of all oracles takes it; what is known of the data is worked out once."""

    def scored(known: Scores, z: Vector) -> float:
        if not _last or _last[0][0] is not known:
            _last[:] = [(known, Answers(known))]
        return score(_last[0][1], z)

    return scored


ORACLES: dict[str, Callable[[Scores, Vector], float]] = {
    "dice": oracle(Answers.dice),
    "entropy": oracle(Answers.entropy),
    "gen": oracle(Answers.gen),
    "gradnorm": oracle(Answers.grad_norm),
    "klm": oracle(Answers.klm),
    "logitgap": oracle(Answers.logit_gap),
    "lts": oracle(Answers.lts),
    "openmax": oracle(Answers.openmax),
    "she": oracle(Answers.she),
    "tempscale": oracle(Answers.tempscale),
}
