"""The real features of the shared data folder, as float32 tensors."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from theodolite import Head

FEATURE_SETS = {"cifar10-densenet": ("svhn", "textures"), "imagenet-lite0": ("textures",)}


def load_head(root: Path, name: str) -> Head:
    tensors = load_file(root / name / "head.safetensors")
    return Head(tensors["weight"], tensors["bias"])


def load_split(root: Path, name: str, split: str) -> tuple[Tensor, Tensor | None]:
    tensors = load_file(root / name / f"{split}.safetensors")
    return tensors["features"].float(), tensors.get("labels")
