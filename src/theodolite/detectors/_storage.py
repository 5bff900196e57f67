"""Fitted detectors as tensors and a description, and as safetensors files. Never pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._version import __version__
from ..core.errors import FormatError, InputError, NotFittedError
from ..core.files import read_tensors, write_tensors
from ..reference.head import Head
from ._base import Detector
from ._registry import create

FORMAT = "theodolite-detector/1"
_HEAD = "head."


def save(detector: Detector, path: str | Path) -> None:
    """Write a fitted detector to one file, atomically."""
    tensors, description = pack(detector)
    write_tensors(Path(path), tensors, {"format": FORMAT, "theodolite": __version__, **description})


def load(path: str | Path) -> Detector:
    """A fitted detector from a file written by `Detector.save`."""
    tensors, description = read_tensors(Path(path), FORMAT)
    try:
        return unpack(tensors, description)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path} is damaged: {error}. Remedy: fit the detector again") from error


def pack(detector: Detector) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything a fitted detector is: its buffers (the head's begin with ``head.``) and a description."""
    if detector.width is None:
        raise NotFittedError(f"{detector.record.title} is not fitted: there is nothing to save")
    if not hasattr(type(detector), "record"):
        raise InputError(
            f"{type(detector).__name__} is not registered: decorate the class with "
            f"theodolite.register, which gives it the name it is stored under"
        )
    description = {
        "detector": detector.record.name,
        "options": detector.options(),
        "width": detector.width,
        "unit_features": detector.head is not None and detector.head.unit_features,
    }
    return dict(detector.named_buffers()), description


def unpack(tensors: dict[str, Tensor], description: dict[str, Any], *, head: Head | None = None) -> Detector:
    """The detector that `pack` took apart; a ``head`` given stands in for one left out of the tensors."""
    detector = create(description["detector"], **description["options"])
    stored = {name.removeprefix(_HEAD): tensors[name] for name in tensors if name.startswith(_HEAD)}
    if stored:
        head = Head(stored["weight"], stored["bias"], unit_features=description["unit_features"])
    detector.head = head
    detector.width = description["width"]
    for name, tensor in tensors.items():
        if not name.startswith(_HEAD):
            parent, _, leaf = name.rpartition(".")
            module: torch.nn.Module = detector.get_submodule(parent)
            module.register_buffer(leaf, tensor)
    detector._build()
    return detector
