"""What must hold before stores are used together: one model, one numbering of classes, labels it has."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from ..core.errors import InputError, TheodoliteWarning
from ..models.identity import without_code
from .asking import inputs_of
from .manifest import EXIF
from .store import FeatureStore

# Share of the calibration data that may be known: a data set has a few pictures twice.
_TOLERATED = 0.01


def require_same_model(one: FeatureStore, other: FeatureStore, *, accept_code_change: bool = False) -> None:
    """Refuse features of different weights, layers or preprocessing, and of changed code unless accepted."""
    a, b = one.manifest.recipe, other.manifest.recipe
    if (a.weights, a.layer, without_code(a.preprocess)) != (b.weights, b.layer, without_code(b.preprocess)):
        raise InputError(
            f"{one.path} and {other.path} are of different models or preprocessing: {a.model} and {b.model}. "
            f"Extract both with the same one"
        )
    if a.model_score != b.model_score:
        raise InputError(
            f"{one.path} holds features of {inputs_of(a.model_score)}, {other.path} of "
            f"{inputs_of(b.model_score)}: they do not compare. Extract both in the same way"
        )
    if a.preprocess != b.preprocess and not accept_code_change:
        raise InputError(
            f"{one.path} and {other.path} are features of {a.model}, whose code changed in between, or is "
            f"known in another way since version 0.1.0. If both are the features of one and the same "
            f"computation, pass --accept-code-change (accept_code_change=True in Python); else extract again"
        )
    # The one that does not know first: what is refused need not be warned of.
    for known, other_store in sorted(((one, other), (other, one)), key=_knows_turn):
        require_same_turn(str(known.path), known.manifest.recipe.orientation, other_store)


def _knows_turn(pair: tuple[FeatureStore, FeatureStore]) -> bool:
    return pair[0].manifest.recipe.orientation is not None


def require_same_turn(other: str, orientation: str | None, store: FeatureStore) -> None:
    """Refuse features of turned pictures beside those of pictures as they are stored.

    Pictures that say nothing of an orientation are the same either way; version 0.1.0 took all as stored, and
    what it took is not known to say nothing.
    """
    if orientation is None and store.turned:
        raise InputError(
            f"{store.path}: {store.turned:,} of its pictures were turned as their EXIF orientation says, but "
            f"{other} is of version 0.1.0, which took pictures as stored, or does not know. Remedy: extract "
            f"and fit again, both with this version"
        )
    if orientation == EXIF and store.manifest.recipe.orientation is None:
        warnings.warn(
            f"{store.path} was extracted by version 0.1.0, which took pictures as stored: if some are to be "
            f"turned as their EXIF orientation says, their features do not compare with those of {other}. "
            f"Remedy: extract it again",
            TheodoliteWarning,
            stacklevel=2,
        )


def require_unseen_pictures(fitted: Sequence[FeatureStore], held_out: Sequence[FeatureStore]) -> bool:
    """Refuse calibration data of which more than 1 % of the pictures is fitted on as well; warn of fewer.

    Pictures are compared by their content, whatever they are called and wherever they lie. False if some are
    not known: stores of version 0.1.0, and of features in files, have no pictures to compare.
    """
    known = [contents for store in fitted if (contents := store.contents()) is not None]
    asked = [contents for store in held_out if (contents := store.contents()) is not None]
    whole = len(known) == len(fitted) and len(asked) == len(held_out)
    if not known or not asked:
        return False
    rows = torch.cat(asked)
    require_unseen_contents(int(torch.isin(rows, torch.cat(known)).sum()), len(rows))
    return whole


def require_unseen_contents(found: int, asked: int) -> None:
    """Refuse if more than 1 % of the pictures asked about were found among those fitted on; warn of fewer."""
    if found == 0:
        return
    told = (
        f"{found:,} of {asked:,} samples to calibrate on are fitted on as well: scores of data they "
        f"were fitted on promise nothing"
    )
    if found > _TOLERATED * asked:
        raise InputError(f"{told}. Remedy: calibrate on other ones, or leave the calibration data out")
    warnings.warn(told, TheodoliteWarning, stacklevel=3)


def require_same_classes(one: FeatureStore, other: FeatureStore) -> None:
    """Folders number their own sub-folders: with other ones the same label means another class."""
    if one.manifest.folders != other.manifest.folders:
        raise InputError(
            f"{one.path} and {other.path} number different classes by their labels: their data has other "
            f"folders, or other names of classes. Extract parts of one folder with --part, or leave the "
            f"labels out (--kind flat)"
        )


def require_labels(store: FeatureStore) -> None:
    """Labels, where there are any, must be classes of the model; a limit of 0.1.0 is warned of."""
    if not store.labelled:
        return
    present = {label for labels in store.labels() for label in labels.tolist()}
    highest = max(present, default=0)
    if store.head is not None and highest >= store.manifest.classes:
        raise InputError(
            f"{store.manifest.source} has labels up to {highest}, but the model has {store.manifest.classes} "
            f"classes: labels must lie in 0..{store.manifest.classes - 1}. Remedy: use the classes the model "
            f"was trained on, or leave the labels out (--kind flat for a folder)"
        )
    recipe, named = store.manifest.recipe, store.manifest.folders
    classes = (store.manifest.classes or highest + 1) if named is None else len(named)
    if recipe.orientation is None and recipe.limit == recipe.samples and len(present) < classes:
        warnings.warn(
            f"{store.path} holds {len(present):,} of {classes:,} classes: version 0.1.0 took the first "
            f"{recipe.limit:,} samples for a --limit, which of a folder are its first classes, and a guard "
            f"of these flags all others. Remedy: extract again, a limit is now a sample of every class",
            TheodoliteWarning,
            stacklevel=2,
        )
