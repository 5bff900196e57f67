"""Several scores as one graph: what a guard adds to them is the same for all, and recorded elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from theodolite.detectors import Detector
from theodolite.guard import Guard


class Scores(torch.nn.Module):
    """The scores of several guards on the same features: one graph is recorded in a fraction of the time."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        super().__init__()
        self.scores: list[Detector] = [guard.detector for guard in guards]
        self.detectors = torch.nn.ModuleList(self.scores)

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        return tuple(detector(features) for detector in self.detectors)
