"""A first look at a model: where it runs, where its head is, and that head(features) gives its logits."""

from __future__ import annotations

import torch

from ..core.errors import CaptureError, InputError
from ..models import LoadedModel
from .capture import Capture

_IMAGES = 2
DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one."""
    if name not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda is not available on this machine: use cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def probe(loaded: LoadedModel, layer: str | None = None, device: torch.device | None = None) -> Capture:
    """A capture whose head is found and checked, on two images of noise.

    The head must be known before the first sample is read: the layer is part of what names the features.
    """
    device = device or torch.device("cpu")
    noise = torch.rand(_IMAGES, *loaded.input_shape, generator=torch.Generator().manual_seed(0))
    capture = Capture(loaded.model.to(device), layer or loaded.layer)
    try:
        capture(noise.to(device))
    except RuntimeError as error:
        if isinstance(error, CaptureError):
            raise
        remedy = (
            ". Let the factory return (model, preprocess), or say what it takes: ?size=28&mean=0 is grey"
            if loaded.spec.startswith("python:")
            else ""
        )
        raise InputError(
            f"{loaded.spec} does not take images of shape {loaded.input_shape}: {error}{remedy}"
        ) from error
    return capture
