"""Small labelled pictures that a tiny network can learn: stripes across, stripes down, and plain ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from theodolite.core.arrays import FloatArray
from theodolite.data.stacks import ImageStack

CLASSES = ("across", "down", "plain")
SIDE = 8


def striped(count: int, seed: int, *, channels: int = 1) -> ImageStack:
    """So many pictures of each class, with noise, one class after the other."""
    rng = np.random.default_rng(seed)
    waves = np.where(np.arange(SIDE) % 4 < 2, 1.0, -1.0)
    patterns: list[FloatArray] = [
        np.repeat(waves[:, None], SIDE, axis=1),
        np.repeat(waves[None, :], SIDE, axis=0),
        np.zeros((SIDE, SIDE)),
    ]
    labels = np.repeat(np.arange(len(CLASSES)), count)
    noise = rng.normal(0, 25, (len(labels), SIDE, SIDE, channels))
    images = 128 + 70 * np.stack([patterns[label] for label in labels])[..., None] + noise
    return ImageStack("striped", images.clip(0, 255).round().astype(np.uint8), labels, CLASSES)


def write_striped(path: Path, count: int, seed: int) -> Path:
    stack = striped(count, seed)
    np.savez(path, images=np.asarray(stack.images), labels=np.asarray(stack.labels))
    return path
