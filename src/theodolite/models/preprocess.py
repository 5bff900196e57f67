"""Our own preprocessing, for models that bring none: resize, crop, scale. PIL and torch alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
INTERPOLATIONS = tuple(sorted(method.name.lower() for method in Image.Resampling))
_MODES = {1: "L", 3: "RGB"}

# Length over width of pictures that are resized whole before their centre is cut out.
_LONGEST = 16


@dataclass(frozen=True)
class Rgb:
    """A library's transform, for pictures of any mode: grey ones get their three equal channels first."""

    transform: Callable[[Image.Image], Tensor]

    def __call__(self, image: Image.Image) -> Tensor:
        return self.transform(image if image.mode == "RGB" else image.convert("RGB"))


@dataclass(frozen=True)
class Pixels:
    """Image to tensor: shorter side to ``resize``, centre crop of ``size``, then (x / 255 − mean) / std.

    With ``resize=None`` the whole picture is squeezed into the square instead of cropped.
    """

    size: int
    resize: int | None = None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    interpolation: str = "bilinear"

    def __call__(self, image: Image.Image) -> Tensor:
        mode = _MODES[len(self.mean)]
        picture = self.fitted(image if image.mode == mode else image.convert(mode))
        pixels = np.asarray(picture).reshape(self.size, self.size, len(self.mean))
        # By NumPy: pictures are prepared in threads, and each would bring a team of torch's own threads.
        values = np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32)
        values /= 255
        values -= np.asarray(self.mean, dtype=np.float32)[:, None, None]
        values /= np.asarray(self.std, dtype=np.float32)[:, None, None]
        return torch.from_numpy(values)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return (len(self.mean), self.size, self.size)

    def fitted(self, image: Image.Image) -> Image.Image:
        """A picture of the right mode, resized and cropped, before its pixels become numbers."""
        method = Image.Resampling[self.interpolation.upper()]
        if self.resize is None:
            whole = (self.size, self.size)
            return image if image.size == whole else image.resize(whole, method)
        image = _middle(image)
        width, height = image.size
        shorter = min(width, height)
        scaled = (max(1, int(self.resize * width / shorter)), max(1, int(self.resize * height / shorter)))
        if scaled != image.size:
            image = image.resize(scaled, method)
        left, top = round((scaled[0] - self.size) / 2), round((scaled[1] - self.size) / 2)
        return image.crop((left, top, left + self.size, top + self.size))


def _middle(image: Image.Image) -> Image.Image:
    """Of a very long or tall picture the middle: what the centre crop will not show need not be enlarged."""
    width, height = image.size
    longest = _LONGEST * min(width, height)
    if max(width, height) <= longest:
        return image
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    return image.crop((left, top, min(width, left + longest), min(height, top + longest)))
