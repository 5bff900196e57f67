"""The pictures of MNIST and its family as tensors, for networks that are trained here."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ...data.stacks import ImageStack
from ...features.capture import Capture
from ..presence import look

_BATCH = 1_000


def pictures(root: Path, name: str, split: str = "test") -> tuple[Tensor, Tensor]:
    """Pixels in [0, 1], (N, 1, height, width), and labels (N,)."""
    stack = look(name, split, root).open()
    assert isinstance(stack, ImageStack)
    assert stack.labels is not None
    pixels = torch.from_numpy(stack.images.astype("float32")).div_(255)
    return pixels[:, None], torch.from_numpy(stack.labels.astype("int64"))


@torch.no_grad()
def features_of(capture: Capture, images: Tensor) -> Tensor:
    """The features (N, D) of many pictures, in batches."""
    return torch.cat([capture(batch)[0] for batch in torch.split(images, _BATCH)])
