"""Small classifiers for the `python:` source: one with the OE authors' shape, one that takes its time."""

from __future__ import annotations

import os
import time

import torch
from torch import Tensor, nn

# Seconds a forward pass waits, so that a test can interrupt it.
DELAY = "THEODOLITE_TEST_DELAY"


class Tiny(nn.Module):
    """8×8 grey images in, three logits out; the weights are the same in every process."""

    input_shape = (1, 8, 8)
    width = 16

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, self.width), nn.Tanh())
        self.fc = nn.Linear(self.width, 3)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(float(os.environ.get(DELAY, "0")))
        logits: Tensor = self.fc(self.body(images))
        return logits


class Wide(Tiny):
    """The same with features that weigh something."""

    width = 512


class OutlierExposureNet(nn.Module):
    """The MNIST ConvNet of "Outlier Exposure" (Hendrycks et al. 2019)."""

    input_shape = (1, 28, 28)

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = _gelu(torch.max_pool2d(self.conv1(images), 2))
        hidden = _gelu(torch.max_pool2d(self.conv2(hidden), 2))
        logits: Tensor = self.fc2(_gelu(self.fc1(hidden.flatten(1))))
        return logits


def _gelu(values: Tensor) -> Tensor:
    return values * torch.sigmoid(1.702 * values)
