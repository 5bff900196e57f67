"""A first look at a model: where its head is, and that head(features) gives its logits."""

from __future__ import annotations

import torch

from ..core.errors import CaptureError, InputError
from ..models import LoadedModel
from .capture import Capture
from .encoder import OUTPUT, OutputCapture

_IMAGES = 2


def checked_capture(
    loaded: LoadedModel,
    layer: str | None = None,
    device: torch.device | None = None,
    *,
    force: bool = True,
) -> Capture:
    """A capture whose head is found and checked, on two images of noise.

    The head must be known before the first sample is read: the layer is part of what names the features.
    With `OUTPUT` for a layer the output is the feature, refused without ``force`` if it looks like logits.
    """
    device = device or torch.device("cpu")
    noise = torch.rand(_IMAGES, *loaded.input_shape, generator=torch.Generator().manual_seed(0))
    model = loaded.model.to(device)
    capture = OutputCapture(model, force=force) if layer == OUTPUT else Capture(model, layer or loaded.layer)
    try:
        capture(noise.to(device))
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        if isinstance(error, CaptureError):
            raise
        remedy = (
            ". Let the factory return (model, preprocess), or say what it takes: ?size=28&mean=0 is grey"
            if loaded.spec.startswith("python:")
            else ". ?size=… in its spec says how large they shall be"
        )
        raise InputError(
            f"{loaded.spec} does not take images of shape {loaded.input_shape}: {error}{remedy}"
        ) from error
    return capture
