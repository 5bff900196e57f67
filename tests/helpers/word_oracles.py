"""NegLabel and zero-shot ORA from their papers' formulas in float64, one sample at a time."""

from __future__ import annotations

import math

import numpy as np

from oracles import Matrix, Vector, angle, cosine, projection


def neglabel(z: Vector, names: Matrix, groups: list[Matrix], temperature: float = 0.01) -> float:
    """The mean over groups of the names' share of a softmax over names and words."""
    shares = []
    for words in groups:
        near = [math.exp(cosine(z, name) / temperature) for name in names]
        far = [math.exp(cosine(z, word) / temperature) for word in words]
        shares.append(sum(near) / (sum(near) + sum(far)))
    return sum(shares) / len(shares)


def likeness(word: Vector, names: Matrix, percentile: float) -> float:
    """How much a word is like the names of the classes."""
    return float(np.percentile([cosine(word, name) for name in names], percentile))


def zero_shot_ora(z: Vector, names: Matrix, mu: Vector, *, on_sphere: bool) -> float:
    """The paper's z_db = z − ⟨z, u⟩u, u the unit vector along the difference of two unit text embeddings; the
    authors' code divides z_db by its norm."""
    p = int(np.argmax(names @ z))
    angles = []
    for c in range(len(names)):
        if c != p:
            flat = projection(z, names[p], names[c], 0.0, 0.0)
            angles.append(angle(z, flat / np.linalg.norm(flat) if on_sphere else flat, mu))
    return max(angles)
