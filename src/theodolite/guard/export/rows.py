"""Made inputs that a graph is compared on: ordinary, far out, and at the edge of having a score."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..judge import Judge

_SEED = 0
_DIGIT, _TRIALS = 2.0**-24, 8
_SCALES = (0.03, 0.3, 1.0, 3.0, 30.0)
_DRAWS, _BANK_ROWS, _IMAGES = 32, 64, 6
# Buffers of detectors that hold ID features or their mean.
_MEANS, _BANKS = ("mean", "centre", "centres", "origin"), ("bank",)


def made_rows(judge: Judge) -> Mapping[str, Tensor]:
    """Features (N, D) by the kind of input that they are."""
    generator = torch.Generator().manual_seed(_SEED)
    centre = _centre(judge)
    length = max(float(torch.linalg.vector_norm(centre)) / judge.width**0.5, 1e-3) if centre.any() else 1.0
    noise = torch.randn(_DRAWS, judge.width, generator=generator)
    toward = _toward_classes(judge, generator) * length * judge.width**0.5
    draws = [centre + scale * (length * noise + toward) for scale in _SCALES]
    far = torch.cat([centre + factor * draws[2][:8] for factor in (1e3, 1e6, 1e15, 1e25)])
    sets = {
        "random": torch.cat(draws),
        "far out": far,
        "nearly degenerate": _edges(judge, centre, length, noise),
    }
    bank = dict(judge.detector.named_buffers()).get("bank")
    if bank is not None and bank.ndim == 2 and bank.shape[1] == judge.width:
        chosen = torch.randperm(len(bank), generator=generator)[:_BANK_ROWS]
        sets["of the bank"] = (
            bank[chosen].float()
            + 0.1
            * length
            * torch.randn(len(chosen), judge.width, generator=generator)
            * torch.rand(len(chosen), 1, generator=generator).round()
        )
    return {**sets, "not finite": _spoilt(draws[2][:8])}


def unrest(judge: Judge, rows: Tensor) -> npt.NDArray[np.floating]:
    """By how much scores move when every feature moves by its last digit in float32, worked in float64."""
    generator = torch.Generator().manual_seed(_SEED)
    exact = rows.double()
    # Zeros too: which of several equal features are the largest ones, a shaping decides as it likes.
    least = _DIGIT**2 * exact.abs().amax(dim=1, keepdim=True)
    score, moved = judge.detector.score(exact), []
    for _ in range(_TRIALS):
        steps = torch.randn(2, *exact.shape, generator=generator, dtype=exact.dtype)
        moved.append(judge.detector.score(exact * (1 + _DIGIT * steps[0]) + least * steps[1]))
    return torch.stack([(one - score).abs() for one in moved]).amax(dim=0).numpy()


def made_images(shape: tuple[int, int, int]) -> Mapping[str, Tensor]:
    """Prepared images (N, channels, height, width)."""
    generator = torch.Generator().manual_seed(_SEED)
    noise = torch.randn(_IMAGES, *shape, generator=generator)
    coarse = torch.randn(_IMAGES, shape[0], 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, shape[1:], mode="bilinear", align_corners=False)
    flat = torch.tensor([0.0, 1.0, -2.0])[:, None, None, None].expand(-1, *shape)
    spoilt = smooth[:3].clone()
    spoilt[:, 0, 0, 0] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    return {"random": torch.cat([noise, smooth, flat]), "not finite": torch.cat([spoilt, smooth[3:4]])}


def made_pictures(size: int) -> Mapping[str, Tensor]:
    """Pictures (N, H, W, 3) in bytes: such as need no resizing, and larger, smaller and longer ones."""
    generator = torch.Generator().manual_seed(_SEED)
    coarse = torch.rand(_IMAGES, 3, 9, 9, generator=generator)

    def smooth(height: int, width: int) -> Tensor:
        large = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic", align_corners=False)
        grain = 0.1 * torch.rand(_IMAGES, 3, height, width, generator=generator)
        return ((large * 0.9 + grain).clamp(0, 1) * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()

    return {
        "as large as needed": smooth(size, size),
        "reduced": smooth(2 * size + 37, 3 * size + 1)[:2],
        "enlarged": smooth(max(2, size // 3), max(2, size // 2))[:2],
        "tall": smooth(5 * size // 2, size)[:2],
    }


def _centre(judge: Judge) -> Tensor:
    """The mean of ID features where the detector knows it, or what it measures from; else zeros."""
    for name, buffer in judge.detector.named_buffers():
        if name in _MEANS and buffer.shape[-1:] == (judge.width,):
            return buffer.reshape(-1, judge.width)[0].float()
    return torch.zeros(judge.width)


def _toward_classes(judge: Judge, generator: torch.Generator) -> Tensor:
    """Unit steps toward classes, as features of ID inputs take them."""
    if judge.head is None:
        return torch.zeros(_DRAWS, judge.width)
    classes = torch.randint(judge.head.classes, (_DRAWS,), generator=generator)
    toward: Tensor = torch.nn.functional.normalize(judge.head.weight.float()[classes], dim=1)
    return toward


def _edges(judge: Judge, centre: Tensor, length: float, noise: Tensor) -> Tensor:
    """Zeros, the mean and rows a breath from it, equal, tiny and lone entries, ties of two classes."""
    rows = [
        torch.zeros(1, judge.width),
        centre[None],
        centre + length * 10.0 ** -torch.arange(1, 9)[:, None] * noise[:8],
        torch.full((1, judge.width), length),
        1e-20 * noise[:2],
        1e-30 * noise[2:4],
        torch.eye(judge.width)[:2] * length,
    ]
    if judge.head is not None:
        rows.append(_tied(judge, centre + length * noise[8:24]))
    return torch.cat(rows)


def _tied(judge: Judge, rows: Tensor) -> Tensor:
    """Rows moved onto the boundary between their two likeliest classes, and a little off it."""
    assert judge.head is not None
    weight = judge.head.weight.double()
    best = judge.head(rows.float()).topk(2, dim=1).indices
    normal = weight[best[:, 0]] - weight[best[:, 1]]
    gap = judge.head(rows.double()).gather(1, best).diff(dim=1).neg()
    step = gap / normal.square().sum(dim=1, keepdim=True).clamp_min(1e-12)
    short = torch.tensor([0.0, 1e-3, 1e-5, 1e-7], dtype=torch.float64).repeat(len(rows))[: len(rows), None]
    moved: Tensor = rows.double() - (1 - short) * step * normal
    return moved.float()


def _spoilt(rows: Tensor) -> Tensor:
    spoilt = rows.clone()
    spoilt[0, 0], spoilt[2, -1], spoilt[3, 1], spoilt[5] = torch.nan, torch.inf, -torch.inf, torch.nan
    return spoilt
