"""Made data with the shape of the real thing: classes around their own directions, a head that reads them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from theodolite import Head


@dataclass(frozen=True)
class Problem:
    head: Head
    train: Tensor
    labels: Tensor
    test: Tensor
    ood: Tensor


def make_problem(*, width: int = 48, classes: int = 6, rows: int = 300, seed: int = 0) -> Problem:
    """ReLU-like features of ``classes`` classes, held-out features, and outliers without a class."""
    rng = torch.Generator().manual_seed(seed)
    directions = torch.randn(classes, width, generator=rng).abs() * 2
    labels = torch.arange(rows) % classes

    def draw(targets: Tensor) -> Tensor:
        noise = torch.randn(len(targets), width, generator=rng) * 0.6
        return (directions[targets] + noise).clamp_min(0)

    train, test = draw(labels), draw(labels[:120])
    ood = directions.mean(dim=0) + 1.2 * torch.randn(120, width, generator=rng)
    weight = directions - directions.mean(dim=0)
    bias = -(weight @ (directions.mean(dim=0) + directions / 2).T).diagonal()
    return Problem(Head(weight * 0.2, bias * 0.2), train, labels, test, ood.clamp_min(0))
