"""Small classifiers for the `python:` source; they can be told to take their time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from multiprocessing import parent_process

import torch
from PIL import Image
from torch import Tensor, nn

from theodolite.reference.head import Head

# Seconds a forward pass waits, so that a test can interrupt it.
DELAY = "THEODOLITE_TEST_DELAY"


class Tiny(nn.Module):
    """8×8 grey images in, three logits out; the weights are the same in every process."""

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


class NoHead(nn.Module):
    """Ends in a convolution and a mean: nothing to take boundaries from."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, kernel_size=3)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.conv(images).mean(dim=(2, 3))
        return logits


class TwoHeads(nn.Module):
    """The mean of two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(192, 3)
        self.second = nn.Linear(192, 3)

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        logits: Tensor = (self.first(flat) + self.second(flat)) / 2
        return logits


class Fragile(Tiny):
    """Stretches the contrast first, so that it has no answer to a black picture but NaN."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images / images.amax(dim=(1, 2, 3), keepdim=True))


def dying() -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
    """`Tiny`, whose preprocessing ends a worker process that it is given a white picture in."""
    return Tiny(), _prepared


def _prepared(image: Image.Image) -> Tensor:
    if parent_process() is not None and image.getextrema() == (255, 255):
        os.kill(os.getpid(), signal.SIGKILL)
    pixels = image.convert("L").resize((8, 8)).tobytes()
    return torch.tensor(list(pixels)).reshape(1, 8, 8) / 255


class TinyConv(nn.Module):
    """8×8 grey images through two convolutions; layers to be heard are `stem`, `block` and `fc`."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 6, kernel_size=3, padding=1), nn.Tanh())
        self.block = nn.Sequential(nn.Conv2d(6, 10, kernel_size=3, stride=2), nn.BatchNorm2d(10), nn.Tanh())
        self.fc = nn.Linear(10, 3)
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.block(self.stem(images)).mean(dim=(2, 3)))
        return logits


class Dropping(TinyConv):
    """The same with dropout before the head: what it draws in training is part of what it learns."""

    def forward(self, images: Tensor) -> Tensor:
        maps = self.block(self.stem(images)).mean(dim=(2, 3))
        logits: Tensor = self.fc(nn.functional.dropout(maps, 0.2, self.training))
        return logits


class NoBias(TinyConv):
    """The same with a head that has no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(10, 3, bias=False)


class Sharing(nn.Module):
    """8×8 grey images twice through one layer's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.head = nn.Linear(64, 3)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.second(torch.tanh(self.first(images.flatten(1))))))
        return logits


class Named(Tiny):
    """The same with a cosine head, as of three class names."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.randn(3, self.width, generator=torch.Generator().manual_seed(3))
        self.fc = Head.cosine(drawn)  # type: ignore[assignment]
