"""A first look at a model: where its head is, and that head(features) gives its logits."""

from __future__ import annotations

import torch

from ..core.errors import CaptureError, InputError
from ..models import LoadedModel
from .asking import AsksModel
from .capture import Capture
from .encoder import OUTPUT, OutputCapture
from .layer_rows import joined_names, layer_names

_IMAGES = 2


def checked_capture(
    loaded: LoadedModel,
    layer: str | None = None,
    device: torch.device | None = None,
    score: AsksModel | None = None,
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
    if layer == OUTPUT:
        if score is not None and score.model_score is not None:
            raise InputError(
                f"{score.model_score} asks for logits, which an encoder without a head has none of"
            )
        capture: Capture = OutputCapture(model, force=force)
    else:
        capture = Capture(model, _layers(layer, loaded.layer), score)
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


def _layers(asked: str | None, known: str | None) -> str | None:
    """The layers asked for; of several, the head that the model's source knows is one."""
    names = layer_names(asked)
    if len(names) < 2 or known is None or known in names:
        return asked or known
    return joined_names([*names, known])
