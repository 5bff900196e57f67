"""A small network on made pictures, and a guard of it that prepares them as torchvision does."""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor, nn

import theodolite as th
from theodolite.guard import Guard
from theodolite.models import LoadedModel
from theodolite.models.preprocess import Pixels

PIXELS = Pixels(size=24, resize=28, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), interpolation="bicubic")


class Net(nn.Module):
    """A small network in the way of torchvision's: convolutions, a norm, a mean, a linear layer `fc`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 24, 5, stride=2)
        self.norm = nn.BatchNorm2d(24)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(24, 4)

    def forward(self, images: Tensor) -> Tensor:
        pooled = torch.relu(self.norm(self.conv(images))).mean(dim=(2, 3))
        logits: Tensor = self.fc(self.drop(pooled))
        return logits


def pictures(count: int, seed: int = 0, side: int = 60) -> list[Image.Image]:
    """Soft colours under a little noise."""
    generator = torch.Generator().manual_seed(seed)
    soft = torch.rand(count, 3, 5, 5, generator=generator)
    large = nn.functional.interpolate(soft, (side, side + 17), mode="bicubic", align_corners=False)
    noisy = large + 0.05 * torch.rand(large.shape, generator=generator)
    pixels = (noisy.clamp(0, 1) * 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(one) for one in pixels]


def loaded_model(model: nn.Module, pixels: Pixels = PIXELS) -> LoadedModel:
    return LoadedModel("net", model, pixels, repr(pixels), pixels.input_shape)


def prepared() -> Tensor:
    return torch.stack([PIXELS(picture) for picture in pictures(300)])


def net_guard() -> Guard:
    """Fitted on 200 of the pictures, calibrated on 100."""
    model, images = Net().eval(), prepared()
    capture = th.Capture(model)
    train, known = torch.split(images[:200], 50), torch.split(images[200:], 50)
    fitted = Guard.fit(
        capture.over(list(train)), head=capture.head, calibration=capture.over(list(known)), detector="energy"
    )
    return fitted.attach(loaded_model(model))
