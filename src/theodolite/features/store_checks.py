"""What must hold before stores are used together: one model, one numbering of classes, labels it has."""

from __future__ import annotations

from ..core.errors import InputError
from .store import FeatureStore


def require_same_model(one: FeatureStore, other: FeatureStore) -> None:
    """Refuse features of different weights, layers or preprocessing."""
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
