"""The pictures of MNIST and its family as tensors, for networks that are trained here."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from ...benchmarks.locate import locate
from ...data.stacks import ImageStack
from ...features.capture import Capture

_BATCH = 1_000


def pictures(root: Path, name: str, split: str = "test") -> tuple[Tensor, Tensor]:
    """Pixels in [0, 1], (N, 1, height, width), and labels (N,)."""
    stack = locate(name, split, root, verify=True).open()
    assert isinstance(stack, ImageStack)
    assert stack.labels is not None
    pixels = torch.from_numpy(stack.images.astype("float32")).div_(255)
    return pixels[:, None], torch.from_numpy(stack.labels.astype("int64"))


def digest_of(tensors: Iterable[Tensor], *code: object) -> str:
    """Names pictures, labels and the modules that something is trained from."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    for part in code:
        digest.update(inspect.getsource(part).encode())  # type: ignore[arg-type]
    return digest.hexdigest()[:12]


@torch.no_grad()
def features_of(capture: Capture, images: Tensor) -> Tensor:
    """The features (N, D) of many pictures, in batches."""
    return torch.cat([capture(batch)[0] for batch in torch.split(images, _BATCH)])
