"""Where a guard's features come from: the model, its weights, its preprocessing, its layer.

A guard knows nothing but the features of one model. Whatever it is shown later, pictures or stored features,
must come from the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError
from ..features.asking import inputs_of
from ..features.manifest import EXIF
from ..features.store import FeatureStore
from ..features.store_checks import require_same_turn
from ..models import LoadedModel, load_model
from ..models.identity import knows_whole_file, without_code
from ..models.registry import names_model

_ACCEPT = "--accept-code-change (accept_code_change=True in Python)"


@dataclass(frozen=True)
class Provenance:
    """The model whose features a guard was fitted on.

    ``orientation`` is ``exif`` if the pictures were turned as their EXIF orientation says; None if they were
    taken as stored, as version 0.1.0 did, or if that is not known. ``layer`` is the head's name, or of
    several layers the text of their rows; ``model_score`` is what a score asked of the model beside features,
    None where they are those of inputs as they are.
    """

    model: str
    weights: str
    preprocess: str
    layer: str
    weights_file: str | None = None
    orientation: str | None = None
    model_score: str | None = None

    @classmethod
    def of_store(cls, store: FeatureStore, weights: str | Path | None = None) -> Provenance:
        """The model of a store's features; ``weights`` is where its checkpoint is now."""
        recipe = store.manifest.recipe
        file = store.manifest.weights_file if weights is None else str(Path(weights).resolve())
        turned = None if recipe.orientation is None else EXIF
        named = recipe.model, recipe.weights, recipe.preprocess, recipe.layer
        return cls(*named, file, turned, recipe.model_score)

    @classmethod
    def of_model(cls, loaded: LoadedModel, layer: str, *, orientation: str | None = None) -> Provenance:
        """A model at hand, whose head is ``layer``."""
        return cls(loaded.spec, loaded.digest, loaded.preprocess_id, layer, orientation=orientation)

    @property
    def turns(self) -> bool:
        """Whether pictures are to be turned upright, as those were that the guard knows."""
        return self.orientation == EXIF


def trusted_spec(provenance: Provenance, model: str | None) -> str:
    """The spec of a guard's model, to be loaded; code only if the caller names it as well."""
    if model is not None and not names_model(model, provenance.model):
        raise InputError(f"the guard was fitted on {provenance.model}, not on {model}")
    if model is None and provenance.model.startswith("python:"):
        raise InputError(
            f"the guard's model is code that would be run, {provenance.model}. If you trust the guard's "
            f"file, name it yourself: --model '{provenance.model}' (model= in Python)"
        )
    return provenance.model


def only_model(model: str | Sequence[str] | None) -> str | None:
    """The one spec that was given, or None; a guard of one model takes no more."""
    if model is None or isinstance(model, str):
        return model
    if len(model) > 1:
        raise InputError(f"the guard has one model, and {len(model)} were named: {', '.join(model)}")
    return model[0] if model else None


def load_trusted(
    provenance: Provenance,
    model: str | None,
    weights: str | Path | None,
    *,
    accept_code_change: bool = False,
) -> LoadedModel:
    """A guard's own model, loaded and compared; its checkpoint is ``weights``, or lies where it was."""
    spec, file = trusted_spec(provenance, model), weights or provenance.weights_file
    if weights is None and file is not None and not Path(file).is_file():
        raise InputError(f"the checkpoint {file} is gone: say where it is with --weights")
    loaded = load_model(spec, weights=file)
    require_model(provenance, loaded, accept_code_change=accept_code_change)
    return loaded


def require_model(
    provenance: Provenance | None, loaded: LoadedModel, *, accept_code_change: bool = False
) -> None:
    """Refuse a model other than the one whose features a guard knows.

    ``accept_code_change``: the caller knows that a model of their own, whose code has changed, computes what
    it did. Its weights and its preprocessing must be the same all the same.
    """
    if provenance is None:
        return
    if provenance.weights != loaded.digest:
        raise InputError(
            f"the weights of {loaded.spec} are not those the guard was fitted on: "
            f"sha256 {loaded.digest[:12]}…, expected {provenance.weights[:12]}…. "
            f"Remedy: pass the same checkpoint (--weights), or fit again"
        )
    known, found = provenance.preprocess, loaded.preprocess_id
    if known in (found, *loaded.former_ids):
        return
    if without_code(known) != without_code(found):
        raise InputError(
            f"{loaded.spec} prepares images as {found!r}, but the guard was fitted on {known!r}. "
            f"Remedy: fit again"
        )
    if not accept_code_change:
        raise InputError(_changed_code(f"the code of {loaded.spec}", known))


def _changed_code(what: str, known: str) -> str:
    if knows_whole_file(known):
        return (
            f"{what} cannot be compared with what the guard was fitted on: the guard, of version 0.1.0, "
            f"knows it by its whole file, which has changed since. If nothing in it that the model or its "
            f"preprocessing uses has, pass {_ACCEPT}; else fit again, and only what they use will count"
        )
    return (
        f"{what} has changed since the guard was fitted: what the factory uses, in its own module or in one "
        f"that it imports. If it computes the same as before, pass {_ACCEPT}; else fit again"
    )


def require_store(
    provenance: Provenance | None, store: FeatureStore, *, accept_code_change: bool = False
) -> None:
    """Refuse features of another model than the one whose features a guard knows."""
    if provenance is None:
        return
    recipe = store.manifest.recipe
    made_by = (recipe.weights, recipe.layer, without_code(recipe.preprocess))
    if made_by != (provenance.weights, provenance.layer, without_code(provenance.preprocess)):
        raise InputError(
            f"{store.path} holds features of {recipe.model} ({recipe.layer}) with other weights, layer "
            f"or preprocessing than the guard's {provenance.model} ({provenance.layer}). Remedy: extract "
            f"with the guard's model"
        )
    if recipe.model_score != provenance.model_score:
        raise InputError(
            f"{store.path} holds features of {inputs_of(recipe.model_score)}, but the guard was calibrated "
            f"on {inputs_of(provenance.model_score)}: their scores do not compare. Remedy: score the "
            f"pictures, or fit again"
        )
    if recipe.preprocess != provenance.preprocess and not accept_code_change:
        raise InputError(
            f"{store.path} holds features of {recipe.model} whose code was another, or is known in another "
            f"way, than that of the guard's model. If both compute the same, pass {_ACCEPT}; else extract "
            f"with the guard's model, or fit again"
        )
    require_same_turn("the guard", provenance.orientation, store)
