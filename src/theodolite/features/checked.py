"""A first look at a model: where its head is, and that head(features) gives its logits."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.batches import mapped
from ..core.errors import CaptureError, InputError, TheodoliteError
from ..data.sample import PICTURES
from ..models import LoadedModel
from .agreement import same_features
from .asking import AsksModel
from .capture import Capture
from .encoder import OUTPUT, OutputCapture
from .layer_rows import joined_names, layer_names

_SHORTER = ". If they are too long for it: ?max_length=… in the spec of an hf-text model"


def checked_capture(
    loaded: LoadedModel,
    layer: str | None = None,
    device: torch.device | None = None,
    score: AsksModel | None = None,
    *,
    force: bool = True,
) -> Capture:
    """A capture whose head is found and checked, on two images of noise or on the model's examples.

    The head must be known before the first sample is read: the layer is part of what names the features.
    With `OUTPUT` for a layer the output is the feature, refused without ``force`` if it looks like logits.
    """
    device = device or torch.device("cpu")
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
        look = mapped(loaded.first_look(), lambda tensor: tensor.to(device))
        features, _ = capture(look)
        if loaded.examples:
            _require_alone(loaded, capture, features, device)
    except (RuntimeError, AssertionError, ValueError, TypeError, LookupError) as error:
        if isinstance(error, TheodoliteError):
            raise
        if loaded.takes != PICTURES:
            raise InputError(f"{loaded.spec} does not take its own examples: {error}{_SHORTER}") from error
        remedy = (
            ". Let the factory return (model, preprocess), or say what it takes: ?size=28&mean=0 is grey"
            if loaded.spec.startswith("python:")
            else ". ?size=… in its spec says how large they shall be"
        )
        raise InputError(
            f"{loaded.spec} does not take images of shape {loaded.input_shape}: {error}{remedy}"
        ) from error
    return capture


def _require_alone(loaded: LoadedModel, capture: Capture, features: Tensor, device: torch.device) -> None:
    """Refuse a model of whose samples the features depend on those beside them: on how far a batch is filled
    up. What a guard says of a sample must not. Nor may it say the same of every sample."""
    rows = [row[None] for row in features]
    if len(rows) > 1 and all(same_features(rows[0], row) for row in rows[1:]):
        raise CaptureError(
            f"{loaded.spec} gives all its {len(rows)} examples the same features: they do not depend on the "
            f"sample (the first token of a model that reads from left to right, ?pooling=cls, knows none of "
            f"the others), or the examples are all one and the same"
        )
    for row, example in zip(features, loaded.examples, strict=True):
        alone, _ = capture(mapped(loaded.batch([example]), lambda tensor: tensor.to(device)))
        if not same_features(alone, row[None]):
            raise CaptureError(
                f"{loaded.spec} gives a sample other features alone than beside a longer one: padding "
                f"changes them. Remedy: prepare all samples to one length (?padding=max for hf-text models)"
            )


def _layers(asked: str | None, known: str | None) -> str | None:
    """The layers asked for; of several, the head that the model's source knows is one."""
    names = layer_names(asked)
    if len(names) < 2 or known is None or known in names:
        return asked or known
    return joined_names([*names, known])
