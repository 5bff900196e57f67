"""Random numbers by their place in a training: the same seed, epoch and step give the same ones.

Nothing is drawn from a stream that goes on from step to step, so a training that begins again in the middle
draws what one without a break would have drawn.
"""

from __future__ import annotations

import hashlib

import torch


def seed_at(seed: int, *place: int | str) -> int:
    """A seed for one place, such as (epoch, step, "views"); other places have unrelated ones."""
    text = " ".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def generator_at(seed: int, *place: int | str) -> torch.Generator:
    """Random numbers of one place. They are drawn on the CPU: a GPU would draw others."""
    return torch.Generator().manual_seed(seed_at(seed, *place))
