"""A model in memory as a guard's own: compared with what the guard knows, with a preprocessing and a name."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from ..core.arrays import rows_between
from ..core.errors import InputError, TheodoliteWarning
from ..features.agreement import agree_on_the_class, explain_head
from ..features.capture import Capture
from ..features.layers import Call
from ..models import LoadedModel, load_model
from ..models.identity import without_code
from ..models.registry import Preprocess
from ..models.weights import weights_digest
from ..reference.head import Head
from .origin import Origin, require_weights
from .provenance import Provenance

# As far apart as half precision makes equal weights.
_SAME = 2.0**-7
# Of every batch: a changed head shows in each.
_ROWS = 8


@dataclass(frozen=True)
class Named:
    """How a command finds a model that is in memory: its spec, and its checkpoint if it has one."""

    spec: str
    weights: str | Path | None = None


def require_known(
    origin: Origin | None, provenance: Provenance | None, model: nn.Module, digest: str | None = None
) -> None:
    """Refuse another model than the one that gave the features; say so where it cannot be known."""
    known = provenance.weights if provenance is not None else origin.weights if origin is not None else None
    if known is None:
        warnings.warn(
            "the guard was fitted on features alone and cannot know whether this model gave them: only its "
            "head is compared, with the first batch. Fit on Capture(model).over(loader) to have the weights "
            "compared",
            TheodoliteWarning,
            stacklevel=3,
        )
    elif digest != known:
        require_weights(known, model, provenance.model if provenance is not None else "the model")


def as_loaded(model: nn.Module, preprocess: Preprocess, provenance: Provenance | None) -> LoadedModel:
    """A model in memory with its preprocessing; refused where the guard knows another one."""
    identity = re.sub(r" at 0x[0-9a-f]+", "", repr(preprocess))
    if provenance is not None and without_code(provenance.preprocess) != identity:
        raise InputError(
            f"preprocess is {identity!r}, but the guard was fitted on {provenance.preprocess!r}: "
            f"attach(load_model({provenance.model!r})), or leave preprocess out and pass prepared images"
        )
    return LoadedModel(
        spec=f"{type(model).__name__} in memory",
        model=model,
        preprocess=preprocess,
        preprocess_id=identity,
        input_shape=_shape(_prepared(preprocess)),
    )


def as_named(model: nn.Module, preprocess: Preprocess | None, named: Named) -> LoadedModel:
    """The model that a spec names, which must be the one in memory: same weights, same preprocessing."""
    loaded = load_model(named.spec, weights=named.weights)
    if loaded.digest != weights_digest(model):
        raise InputError(
            f"{named.spec} gives other weights than the model in memory: name its checkpoint as well, "
            f"attach(model, spec=…, weights='FILE'), or let the factory load it"
        )
    if preprocess is not None:
        loaded.require_pictures("preprocess= beside a spec")
    if preprocess is not None and not torch.equal(_prepared(preprocess), _prepared(loaded.preprocess)):
        raise InputError(
            f"{named.spec} prepares pictures otherwise than preprocess= does: let the factory return "
            f"(model, preprocess)"
        )
    return replace(loaded, model=model)


def provenance_of(loaded: LoadedModel, capture: Capture, named: Named) -> Provenance:
    """What a file of the guard needs to say for a command to find its model."""
    file = None if named.weights is None else str(Path(named.weights).resolve())
    known = Provenance.of_model(loaded, capture.layer)
    return replace(known, weights_file=file, model_score=capture.model_score)


def require_own_head(head: Head | None, features: Tensor, logits: Tensor) -> None:
    """Refuse a model whose logits are not the guard's head of its features."""
    if head is None:
        return
    if explain_head(head, Call(features, logits), logits, "the guard's head") is not None:
        raise InputError(
            f"the model is not the guard's: its logits (of {logits.shape[1]} classes, from features of width "
            f"{features.shape[1]}) are not what the guard's head of {head.classes} classes and width "
            f"{head.width} gives for its features. Remedy: attach the model that the guard was fitted on, or "
            f"fit again"
        )


def require_same_head(head: Head | None, features: Tensor, logits: Tensor) -> None:
    """The same for every later batch, by the predicted classes of a few rows: a model may be trained on."""
    if head is None or agree_on_the_class(
        head, rows_between(features, 0, _ROWS), rows_between(logits, 0, _ROWS)
    ):
        return
    raise InputError(
        "the model is no longer the guard's: its logits are not what the guard's head gives for its "
        "features. Its weights have changed since the first batch. Remedy: attach the model that the guard "
        "was fitted on, or fit again"
    )


def require_like_head(head: Head | None, found: Head, spec: str) -> None:
    """The same, where the model's own head is at hand."""
    if head is None:
        return
    if head.weight.shape == found.weight.shape and head.unit_features == found.unit_features:
        pairs = ((head.weight, found.weight), (head.bias, found.bias))
        if all(_near(one.cpu().double(), other.cpu().double()) for one, other in pairs):
            return
    raise InputError(
        f"{spec} is not the guard's model: its last layer is not the guard's head. Remedy: attach the model "
        f"that the guard was fitted on, or fit again"
    )


def _near(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= _SAME * one.abs().max()).all())


def _prepared(preprocess: Preprocess) -> Tensor:
    """What becomes of one picture that is not the same everywhere."""
    ramp = torch.arange(48 * 64 * 3, dtype=torch.int64).reshape(48, 64, 3) * 7 % 256
    prepared = preprocess(Image.fromarray(ramp.to(torch.uint8).numpy()))
    if not isinstance(prepared, Tensor) or prepared.ndim != 3:
        raise InputError("preprocess must turn a PIL image into a (channels, height, width) tensor")
    return prepared


def _shape(prepared: Tensor) -> tuple[int, int, int]:
    channels, height, width = prepared.shape
    return channels, height, width
