"""Fitted detectors on disk: tensors in safetensors, everything else as JSON in its header. Never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .._version import __version__
from ..errors import FormatError, InputError, NotFittedError
from ..head import Head
from .base import Detector
from .registry import create

_FORMAT = "theodolite-detector/1"


def save(detector: Detector, path: str | Path) -> None:
    """Write a fitted detector to one file, atomically."""
    if detector.width is None:
        raise NotFittedError(f"{detector.record.title} is not fitted: there is nothing to save")
    description = {
        "format": _FORMAT,
        "theodolite": __version__,
        "detector": detector.record.name,
        "options": detector.options(),
        "width": detector.width,
        "unit_features": detector.head is not None and detector.head.unit_features,
    }
    tensors = {name: buffer.detach().cpu().contiguous() for name, buffer in detector.named_buffers()}
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    save_file(tensors, partial, metadata={"theodolite": json.dumps(description)})
    partial.replace(target)


def load(path: str | Path) -> Detector:
    """A fitted detector from a file written by `Detector.save`."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"no such file: {source}")
    try:
        with safe_open(source, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FormatError(f"{source} is not a readable safetensors file: {error}") from error
    description = _description(metadata, source)
    detector = create(description["detector"], **description["options"])
    _restore(detector, tensors, description)
    return detector


def _description(metadata: dict[str, str], source: Path) -> dict[str, Any]:
    try:
        description: dict[str, Any] = json.loads(metadata["theodolite"])
        known = description["format"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise FormatError(f"{source} was not written by theodolite: its header has no description") from error
    if known != _FORMAT:
        raise FormatError(f"{source} has format {known!r}; this version reads {_FORMAT!r}")
    return description


def _restore(detector: Detector, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
    """Put buffers back where they were, then derive the tables."""
    head = {
        name.removeprefix("head."): tensors.pop(name) for name in list(tensors) if name.startswith("head.")
    }
    if head:
        detector.head = Head(head["weight"], head["bias"], unit_features=description["unit_features"])
    detector.width = description["width"]
    for name, tensor in tensors.items():
        parent, _, leaf = name.rpartition(".")
        module: torch.nn.Module = detector.get_submodule(parent)
        module.register_buffer(leaf, tensor)
    detector._build()
