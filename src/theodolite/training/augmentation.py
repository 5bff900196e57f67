"""Views of pictures: random crops, flips, colours and grey, for whole batches of bytes (N, C, H, W).

What is done to a picture is drawn from a generator on the CPU, so that the views are the same on every
device. The kinds and their strengths are those of SupCon's CIFAR experiments (Khosla et al. 2020), but for
the crop, which is that of the ResNets on CIFAR: a window of the padded picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from ..core.errors import InputError

# Of red, green and blue in the brightness of a pixel (ITU-R 601).
_LUMA = (0.2989, 0.587, 0.114)
_FLIPPED, _COLOURED, _GREYED = 0.5, 0.8, 0.2
# Brightness, contrast and saturation are multiplied by 1 ± this; hues turn by this share of a whole turn.
_FACTOR, _TURN = 0.4, 0.1
KINDS = ("crop", "flip", "colour", "grey")


@dataclass(frozen=True)
class Augmentation:
    """What may happen to a picture, by names out of `KINDS`; ``padding`` is the crop's, in pixels."""

    kinds: tuple[str, ...]
    padding: int = 4

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise InputError(f"augmentation {unknown[0]!r} is unknown; there are: {', '.join(KINDS)}")
        if len(set(self.kinds)) < len(self.kinds):
            raise InputError(f"an augmentation is named twice: {', '.join(self.kinds)}")
        if self.padding < 1:
            raise InputError(f"padding must be at least 1, got {self.padding}")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """One view of each picture, bytes again."""
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise InputError(
                f"images must be bytes of shape (N, C, H, W), got {images.dtype} {tuple(images.shape)}"
            )
        if "crop" in self.kinds:
            images = cropped(images, self.padding, generator)
        if "flip" in self.kinds:
            images = _some(images, _FLIPPED, generator, lambda chosen: chosen.flip(-1))
        if "colour" in self.kinds:
            images = jittered(images, generator)
        if "grey" in self.kinds:
            images = _some(images, _GREYED, generator, grey)
        return images


def cropped(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """A window of each picture's own size in the picture with a black border of ``padding`` pixels."""
    count, _, height, width = images.shape
    if padding >= min(height, width):
        raise InputError(
            f"padding must be smaller than the pictures, which are {height}×{width}, got {padding}: a crop "
            f"could be all border"
        )
    places = torch.randint(0, 2 * padding + 1, (2, count), generator=generator).to(images.device)
    padded = functional.pad(images, (padding,) * 4)
    rows = places[0][:, None] + torch.arange(height, device=images.device)
    columns = places[1][:, None] + torch.arange(width, device=images.device)
    every = torch.arange(count, device=images.device)
    windows = padded[every[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return windows.permute(0, 3, 1, 2).contiguous()


def jittered(images: Tensor, generator: torch.Generator) -> Tensor:
    """Brightness, contrast, saturation and hue of four pictures in five changed, in this order.

    Grey pictures have neither saturation nor hue.
    """
    count = len(images)
    # Drawn for every picture, whatever becomes of it: what one picture gets says nothing of the next.
    factors = 1 + _FACTOR * (2 * torch.rand((3, count), generator=generator) - 1)
    turns = _TURN * (2 * torch.rand(count, generator=generator) - 1)
    chosen = torch.rand(count, generator=generator) < _COLOURED
    kept = chosen.to(images.device)
    values = images[kept].float() / 255
    brightness, contrast, saturation = factors[:, chosen].to(images.device)
    values = brightened(values, brightness)
    values = contrasted(values, contrast)
    if images.shape[1] == len(_LUMA):
        values = saturated(values, saturation)
        values = turned(values, turns[chosen].to(images.device))
    changed = images.clone()
    changed[kept] = (values * 255).round().to(torch.uint8)
    return changed


def brightened(values: Tensor, factors: Tensor) -> Tensor:
    """x · f, within 0 and 1."""
    return (values * _each(factors)).clamp(0, 1)


def contrasted(values: Tensor, factors: Tensor) -> Tensor:
    """f · x + (1 − f) · m with m the mean brightness of the picture, within 0 and 1."""
    return _between(values, _luma(values).mean(dim=(1, 2, 3), keepdim=True), factors)


def saturated(values: Tensor, factors: Tensor) -> Tensor:
    """f · x + (1 − f) · y with y the brightness of the pixel, within 0 and 1."""
    return _between(values, _luma(values), factors)


def turned(values: Tensor, turns: Tensor) -> Tensor:
    """Hues moved round their circle by shares of a whole turn; saturation and value of each pixel stay.

    A channel of a pixel with value V, chroma C and hue H (in sixths of a turn) is V − C · max(0, min(k, 4 −
    k, 1)) with k = (n + H) mod 6 and n = 5, 3, 1 for red, green, blue.
    """
    red, green, blue = values.unbind(dim=1)
    value, chroma = values.amax(dim=1), values.amax(dim=1) - values.amin(dim=1)
    safe = torch.where(chroma > 0, chroma, 1)
    hue = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    hue = hue + 6 * turns[:, None, None]
    channels = []
    for place in (5, 3, 1):
        at = (place + hue) % 6
        channels.append(value - chroma * torch.minimum(at, 4 - at).clamp(0, 1))
    return torch.stack(channels, dim=1)


def grey(images: Tensor) -> Tensor:
    """Every channel as the brightness of its pixel; grey pictures stay as they are."""
    if images.shape[1] == 1:
        return images
    return (_luma(images.float() / 255) * 255).round().to(torch.uint8).expand_as(images)


def _some(
    images: Tensor, share: float, generator: torch.Generator, change: Callable[[Tensor], Tensor]
) -> Tensor:
    """A share of the pictures changed, chosen one by one."""
    chosen = torch.rand(len(images), generator=generator).lt(share).to(images.device)
    changed = images.clone()
    changed[chosen] = change(images[chosen])
    return changed


def _luma(values: Tensor) -> Tensor:
    if values.shape[1] == 1:
        return values
    weights = torch.tensor(_LUMA, device=values.device)
    return (values * weights[:, None, None]).sum(dim=1, keepdim=True)


def _between(values: Tensor, others: Tensor, factors: Tensor) -> Tensor:
    share = _each(factors)
    return (share * values + (1 - share) * others).clamp(0, 1)


def _each(factors: Tensor) -> Tensor:
    return factors[:, None, None, None]
