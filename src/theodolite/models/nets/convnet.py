"""The small ConvNet of Outlier Exposure (Hendrycks et al., ICLR 2019) for 28×28 grey images, 50 features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d


class ConvNet(nn.Module):
    """Two convolutions, two linear layers, with g(x) = x · sigmoid(1.702 x) between them."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, classes)

    def forward(self, images: Tensor) -> Tensor:
        maps = _gate(max_pool2d(self.conv1(images), 2))
        maps = _gate(max_pool2d(self.conv2(maps), 2))
        logits: Tensor = self.fc2(_gate(self.fc1(maps.flatten(1))))
        return logits


def _gate(values: Tensor) -> Tensor:
    return values * torch.sigmoid(1.702 * values)
