"""Guards on made features, which crowd around the weights of their class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite import ORA, Head
from theodolite.guard import Guard

WIDTH, CLASSES = 16, 5


def clusters(count: int, seed: int, spread: float = 1.0) -> tuple[Tensor, Tensor]:
    """Features that crowd around the weights of their class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noise = spread * torch.randn(count, WIDTH, generator=generator)
    return 4 * head().weight[labels] + noise, labels


def head() -> Head:
    return Head(torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(3)))


def fitted(count: int = 4_000, **description: Any) -> Guard:
    features, labels = clusters(count, 0)
    return Guard.fit(features, labels, head=head(), detector=ORA(), **description)
