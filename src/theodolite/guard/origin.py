"""What a guard knows of features whose model it cannot load: their width, their head, perhaps the weights.

Features from a file say nothing of the model that gave them. A guard remembers what can be compared later,
and says of the rest that it cannot know.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from ..core.errors import InputError, TheodoliteWarning
from ..features.arrays import FeatureArray
from ..features.asking import inputs_of
from ..features.capture import Capture, Captured
from ..features.head_files import head_digest
from ..features.importing import IMPORTED
from ..features.store import FeatureStore, StoreParts
from ..models.weights import weights_digest
from ..reference.head import Head
from .provenance import Provenance

IN_MEMORY = "features in memory"


@dataclass(frozen=True)
class Origin:
    """Where features come from. ``head`` and ``weights`` are digests, None where they are not known.

    ``source`` names files, or the class of a model in memory, whose head is ``layer``, or the rows of its
    layers. ``model_score`` is as in `Provenance`.
    """

    source: str
    width: int
    dtype: str | None = None
    head: str | None = None
    weights: str | None = None
    layer: str | None = None
    model_score: str | None = None

    @classmethod
    def of_arrays(cls, arrays: Sequence[FeatureArray], head: Head | None) -> Origin:
        """Features in files."""
        named = ", ".join(array.name for array in arrays)
        return cls(named, arrays[0].width, arrays[0].dtype, _digest(head))

    @classmethod
    def of_capture(cls, capture: Capture) -> Origin:
        """A model in memory, with the weights that it has now."""
        model = capture.model
        return cls(
            source=type(model).__name__,
            width=capture.head.width,
            head=head_digest(capture.head),
            weights=weights_digest(model),
            layer=capture.layer,
            model_score=capture.model_score,
        )

    @classmethod
    def of_store(cls, store: FeatureStore) -> Origin:
        """The features of a store; those that came into it from a file do not know their model."""
        recipe, head = store.manifest.recipe, _digest(store.head)
        if recipe.model == IMPORTED:
            return cls(store.manifest.source, store.width, recipe.dtype, head)
        known = head, recipe.weights, recipe.layer, recipe.model_score
        return cls(recipe.model, store.width, recipe.dtype, *known)


def origin_of(features: object, head: Head | None, width: int | None, model: nn.Module | None) -> Origin:
    """What features say of themselves: those of a capture or a store know their model, or it is given."""
    assert width is not None
    if model is not None:
        return Origin(type(model).__name__, width, None, _digest(head), weights_digest(model))
    if isinstance(features, Captured):
        return Origin.of_capture(features.capture)
    if isinstance(features, StoreParts):
        features = features.parts[0]
    if isinstance(features, FeatureStore):
        return Origin.of_store(features)
    if isinstance(features, FeatureArray):
        return Origin.of_arrays([features], head)
    dtype = str(features.dtype).removeprefix("torch.") if isinstance(features, Tensor) else None
    return Origin(IN_MEMORY, width, dtype, _digest(head))


def require_one_model(features: object, calibration: object) -> None:
    """Refuse to calibrate on the features of another model in memory than the one fitted on."""
    if not (isinstance(features, Captured) and isinstance(calibration, Captured)):
        return
    one, other = features.capture, calibration.capture
    if one.model is not other.model and weights_digest(one.model) != weights_digest(other.model):
        raise InputError(
            "the calibration data goes through another model than the data to fit on: a guard knows the "
            "features of one model. Pass capture.over(…) of the same capture for both"
        )


def require_weights(weights: str | None, model: nn.Module, what: str) -> None:
    """Refuse a model whose weights are not those that are known."""
    if weights is None:
        return
    found = weights_digest(model)
    if found != weights:
        raise InputError(
            f"the weights of this {type(model).__name__} are not those of {what} that the guard was fitted "
            f"on: sha256 {found[:12]}…, expected {weights[:12]}…. Remedy: attach the model as it was then "
            f"(same weights, same precision), or fit again"
        )


def require_array(
    array: FeatureArray, width: int | None, provenance: Provenance | None, origin: Origin | None = None
) -> None:
    """Refuse features in a file that are wider or narrower than a guard's, or any where it was calibrated on
    changed inputs; whose they are, they cannot say."""
    known = provenance or origin
    if known is not None and known.model_score is not None:
        raise InputError(
            f"{array.path} holds features, and does not say of which inputs: the guard was calibrated on "
            f"{inputs_of(known.model_score)}. Score the pictures themselves"
        )
    if width is not None and array.width != width:
        raise InputError(
            f"{array.path} holds features of width {array.width}, but the guard was fitted on width {width}: "
            f"they are of another model or layer"
        )
    if provenance is not None:
        warnings.warn(
            f"{array.name} does not say whose features it holds: that they are of {provenance.model} "
            f"({provenance.layer}) cannot be checked",
            TheodoliteWarning,
            stacklevel=2,
        )


def require_like_origin(origin: Origin | None, store: FeatureStore, width: int | None) -> None:
    """Refuse a store of other features than those that a guard without provenance was fitted on."""
    recipe = store.manifest.recipe
    if width is not None and store.width != width:
        raise InputError(
            f"{store.path} holds features of width {store.width}, but the guard was fitted on width {width}: "
            f"extract with the guard's model"
        )
    if origin is not None and origin.model_score != recipe.model_score:
        raise InputError(
            f"{store.path} holds features of {inputs_of(recipe.model_score)}, but the guard was calibrated "
            f"on {inputs_of(origin.model_score)}: their scores do not compare"
        )
    if origin is not None and origin.weights not in (None, recipe.weights):
        raise InputError(
            f"{store.path} holds features of {recipe.model} with other weights than those of "
            f"{origin.source}, which the guard was fitted on: extract with the guard's model"
        )


def _digest(head: Head | None) -> str | None:
    return None if head is None else head_digest(head)
