"""From what was named on the command line to feature stores: opened as they are, or extracted and kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..core.errors import InputError

if TYPE_CHECKING:
    from ..features.manifest import Recipe
    from ..features.store import FeatureStore
    from ..guard.guard import Provenance


def features_of(
    data: str,
    model: str | None,
    weights: Path | None,
    kind: str | None,
    console: Console,
    how: dict[str, Any],
) -> FeatureStore:
    """The store at a path, or the features of the images there, kept in the cache under their key."""
    from ..features.store import FeatureStore, is_store
    from ..models.registry import names_model

    if is_store(data):
        store = FeatureStore(data)
        unused = {"--layer": how["layer"], "--limit": how["limit"], "--kind": kind}
        for option, value in unused.items():
            if value is not None:
                raise InputError(f"{option} is for images, but {data} is a feature store: leave it out")
        if model is not None and not names_model(model, store.manifest.recipe.model):
            raise InputError(
                f"{data} holds features of {store.manifest.recipe.model}, not of {model}: "
                f"leave out --model, or extract again"
            )
        return store
    if model is None:
        raise InputError(f"{data} is not a feature store: --model says which model shall look at its images")
    return _cached(data, model, weights, kind, console, how)


def _cached(
    data: str, model: str, weights: Path | None, kind: str | None, console: Console, how: dict[str, Any]
) -> FeatureStore:
    from .extract import extract_to

    def place(recipe: Recipe) -> Path:
        return cache_folder() / recipe.key[:20]

    store = extract_to(model, data, place, console, kind=kind, weights=weights, **how)
    console.print(f"features of {data} are kept in {store.path}", highlight=False, soft_wrap=True)
    return store


def cache_folder() -> Path:
    """Where features extracted on the way to a guard are kept."""
    named = os.environ.get("THEODOLITE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "theodolite"


def provenance_of(store: FeatureStore, weights: Path | None) -> Provenance:
    from ..guard.guard import Provenance

    recipe = store.manifest.recipe
    weights_file = store.manifest.weights_file if weights is None else str(weights.resolve())
    return Provenance(recipe.model, recipe.weights, recipe.preprocess, recipe.layer, weights_file)


def require_same_model(one: FeatureStore, other: FeatureStore) -> None:
    a, b = one.manifest.recipe, other.manifest.recipe
    if (a.weights, a.layer, a.preprocess) != (b.weights, b.layer, b.preprocess):
        raise InputError(
            f"{one.path} and {other.path} are of different models or preprocessing: {a.model} and {b.model}. "
            f"Extract both with the same one"
        )


def require_same_classes(one: FeatureStore, other: FeatureStore) -> None:
    """Folders number their own sub-folders: with other ones the same label means another class."""
    if one.manifest.folders != other.manifest.folders:
        raise InputError(
            f"{one.path} and {other.path} number different classes by their labels: their data has other "
            f"folders. Extract parts of one folder with --part, or leave the labels out (--kind flat)"
        )


def require_labels(store: FeatureStore) -> None:
    """Labels, where there are any, must be classes of the model."""
    if not store.labelled:
        return
    highest = max((int(labels.max()) for _, labels, _ in store if labels is not None), default=0)
    if highest >= store.manifest.classes:
        raise InputError(
            f"{store.manifest.source} has labels up to {highest}, but the model has {store.manifest.classes} "
            f"classes: labels must lie in 0..{store.manifest.classes - 1}. Remedy: use the classes the model "
            f"was trained on, or leave the labels out (--kind flat for a folder)"
        )
