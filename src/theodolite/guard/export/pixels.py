"""Preprocessing inside a graph: uint8 pictures as they were decoded to the tensor that the network takes.

The resize is the graph's own, on bytes: Pillow's method in other arithmetic. It differs from Pillow's by a
level of 255 here and there; `compare` measures where and how far.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...models.preprocess import Pixels

INTERPOLATIONS = ("bilinear", "bicubic")
# Weights of red, green and blue in the grey of Pillow, of 2^16, and half of that to round.
_GREY, _HALF, _SHIFT = (19595, 38470, 7471), 2**15, 2**16


def why_outside(pixels: Pixels | None) -> str | None:
    """What keeps a preprocessing out of a graph; None if it can be inside."""
    if pixels is None:
        return "the model's preprocessing is not known as resize, crop and normalise"
    if pixels.interpolation not in INTERPOLATIONS:
        return f"graphs know no antialiased {pixels.interpolation} resize"
    if pixels.resize is not None and pixels.resize < pixels.size:
        return f"pictures of {pixels.resize} pixels are padded to {pixels.size}, which the graph does not do"
    return None


class PixelGraph(nn.Module):
    """`Pixels` for pictures (N, H, W, 3) of one size, in operations that a graph has."""

    mean: Tensor
    std: Tensor

    def __init__(self, pixels: Pixels) -> None:
        super().__init__()
        self.recipe = pixels
        self.register_buffer("mean", torch.tensor(pixels.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(pixels.std)[:, None, None])

    def forward(self, pictures: Tensor) -> Tensor:
        return (self.levels(pictures).to(torch.float32) / 255 - self.mean) / self.std

    def levels(self, pictures: Tensor) -> Tensor:
        """Resized and cropped, still in bytes."""
        planes = pictures.permute(0, 3, 1, 2).contiguous()
        if len(self.recipe.mean) == 1:
            weights = torch.tensor(_GREY, dtype=torch.int32)[:, None, None]
            grey = (planes.to(torch.int32) * weights).sum(dim=1, keepdim=True, dtype=torch.int32)
            planes = torch.div(grey + _HALF, _SHIFT, rounding_mode="floor").to(torch.uint8)
        size, resize = self.recipe.size, self.recipe.resize
        if resize is None:
            return self._resized(planes, size, size)
        height, width = planes.shape[2], planes.shape[3]
        shorter = torch.sym_min(height, width)  # type: ignore[no-untyped-call]
        height, width = resize * height // shorter, resize * width // shorter
        planes = self._resized(planes, height, width)
        top, left = _middle(height - size), _middle(width - size)
        return planes[:, :, top : top + size, left : left + size]

    def _resized(self, planes: Tensor, height: int, width: int) -> Tensor:
        mode = self.recipe.interpolation
        return functional.interpolate(planes, (height, width), mode=mode, align_corners=False, antialias=True)


def _middle(spare: int) -> int:
    """round(spare / 2) in whole numbers: a half goes to the even neighbour."""
    half = spare // 2
    return half + (spare % 2) * (half % 2)
