"""Where a guard's features come from: the model, its weights, its preprocessing, its layer.

A guard knows nothing but the features of one model. Whatever it is shown later, pictures or stored features,
must come from the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError
from ..features.store import FeatureStore
from ..models import LoadedModel, load_model
from ..models.registry import names_model


@dataclass(frozen=True)
class Provenance:
    """The model whose features a guard was fitted on."""

    model: str
    weights: str
    preprocess: str
    layer: str
    weights_file: str | None = None

    @classmethod
    def of_store(cls, store: FeatureStore, weights: str | Path | None = None) -> Provenance:
        """The model of a store's features; ``weights`` is where its checkpoint is now."""
        recipe = store.manifest.recipe
        file = store.manifest.weights_file if weights is None else str(Path(weights).resolve())
        return cls(recipe.model, recipe.weights, recipe.preprocess, recipe.layer, file)

    @classmethod
    def of_model(cls, loaded: LoadedModel, layer: str) -> Provenance:
        """A model at hand, whose head is ``layer``."""
        return cls(loaded.spec, loaded.digest, loaded.preprocess_id, layer)


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


def load_trusted(provenance: Provenance, model: str | None, weights: str | Path | None) -> LoadedModel:
    """A guard's own model, loaded and compared; its checkpoint is ``weights``, or lies where it was."""
    spec, file = trusted_spec(provenance, model), weights or provenance.weights_file
    if weights is None and file is not None and not Path(file).is_file():
        raise InputError(f"the checkpoint {file} is gone: say where it is with --weights")
    loaded = load_model(spec, weights=file)
    require_model(provenance, loaded)
    return loaded


def require_model(provenance: Provenance | None, loaded: LoadedModel) -> None:
    """Refuse a model other than the one whose features a guard knows."""
    if provenance is None:
        return
    if provenance.weights != loaded.digest:
        raise InputError(
            f"the weights of {loaded.spec} are not those the guard was fitted on: "
            f"sha256 {loaded.digest[:12]}…, expected {provenance.weights[:12]}…. "
            f"Remedy: pass the same checkpoint (--weights), or fit again"
        )
    if provenance.preprocess != loaded.preprocess_id:
        raise InputError(
            f"{loaded.spec} prepares images as {loaded.preprocess_id!r}, but the guard was fitted on "
            f"{provenance.preprocess!r}. Remedy: fit again"
        )


def require_store(provenance: Provenance | None, store: FeatureStore) -> None:
    """Refuse features of another model than the one whose features a guard knows."""
    recipe = store.manifest.recipe
    made_by = (recipe.weights, recipe.layer, recipe.preprocess)
    if provenance is None or made_by == (provenance.weights, provenance.layer, provenance.preprocess):
        return
    raise InputError(
        f"{store.path} holds features of {recipe.model} ({recipe.layer}) with other weights, layer "
        f"or preprocessing than the guard's {provenance.model} ({provenance.layer}). Remedy: extract with "
        f"the guard's model"
    )
