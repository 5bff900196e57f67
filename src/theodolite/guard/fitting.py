"""From paths to a guard: features extracted or opened, checked to belong together, a detector fitted.

fitted = fit_guard("pictures/train", "timm:resnet18", calibration="pictures/val")
fitted.guard.save("guard.safetensors")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

from torch import nn

from ..core.errors import InputError
from ..detectors import Detector
from ..evaluation.agreement import Agreement, agreement
from ..features.cached import open_features, require_data
from ..features.importing import IMPORTED
from ..features.layer_rows import layer_names
from ..features.settings import ExtractionSettings, Watch
from ..features.store import FeatureStore, StoreParts, is_store
from ..features.store_checks import require_labels, require_same_classes, require_same_model
from ..reference.head import Head
from ..reference.reference import Batch
from .calibration import FALSE_ALARM_RATE, check_rate
from .choice import require_head
from .fit_data import (
    DataPaths,
    KnownData,
    given_head,
    of_arrays,
    require_no_head,
    require_nothing_of_pictures,
)
from .guard import CALIBRATION_SHARE, Guard
from .holdout import check_share
from .negatives import choose_for_words, with_negatives
from .origin import Origin
from .provenance import Provenance
from .shown import asking, note_on, require_for_layers


class Allowed(TypedDict, total=False):
    """What is rarer, and what the caller knows better: see `fit_guard`."""

    head: Head | nn.Linear | str | Path | None
    negatives: str | Path | None
    per_class: bool | int
    force: bool
    accept_code_change: bool


@dataclass(frozen=True)
class FittedGuard:
    """A guard, the samples its detector was fitted on, and what there is to know about them.

    ``agreement`` is the share of the data's labels that the classifier gives as well; None without labels.
    ``notes`` say what that may mean, where it is unusual.
    """

    guard: Guard
    fitted_on: int
    agreement: float | None
    notes: tuple[str, ...]


def fit_guard(
    data: str | Path | Sequence[str | Path],
    model: str | None = None,
    *,
    weights: str | Path | None = None,
    calibration: str | Path | None = None,
    calibration_share: float = CALIBRATION_SHARE,
    detector: Detector | str | None = None,
    class_names: Sequence[str] | None = None,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    settings: ExtractionSettings | None = None,
    progress: Watch = lambda _: None,
    **allowed: Unpack[Allowed],
) -> FittedGuard:
    """Fit a detector on in-distribution data, pictures or features, and calibrate it on others.

    Several paths are parts of one data set. A feature store knows its ``model``; pictures need one, and
    their features are kept in the cache. Without ``calibration`` data, a share is held out. ``detector`` and
    ``per_class`` are as for `Guard.fit`, ``class_names`` are by default the model's own.

    Features in files (``.npy``, ``.npz``, ``.parquet``, ``.safetensors``, feature folders) have no model; a
    score of logits needs their ``head``, also as a file. Of a feature folder ``id_fit`` is fitted on, and
    calibrated on ``id_test`` where it is named for that.

    A classifier that agrees with the labels no better than by chance, or far less than its features would
    (see `agreement`), is refused; ``force=True`` fits all the same. With ``accept_code_change=True`` features
    of one model of your own before and after a change of its code are one model's. ``negatives`` is a text
    file of words that are no classes, for NegLabel.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> np.savez("train.npz", features=means[labels] + rng.normal(size=(300, 8)), labels=labels)
    >>> np.savez("val.npz", features=means[labels] + rng.normal(size=(300, 8)), labels=labels)
    >>> fitted = th.fit_guard("train.npz", head=th.Head(means), calibration="val.npz")
    >>> fitted.fitted_on, fitted.agreement > 0.9  # of pictures: fit_guard("train/", "timm:resnet18")
    (300, True)
    """
    check_rate(false_alarm_rate)
    check_share(calibration_share)
    chosen = choose_for_words(detector, allowed.get("negatives"))
    named = DataPaths.of(data, calibration, settings)
    if settings is not None and len(layer_names(settings.layer)) > 1:
        require_for_layers(chosen)  # before any picture is read
    known = open_known(
        named,
        model,
        weights=weights,
        settings=replace(settings or ExtractionSettings(), score=asking(chosen)),
        progress=progress,
        head=allowed.get("head"),
        accept_code_change=allowed.get("accept_code_change", False),
    )
    require_head(chosen, known.fit.head)
    agreed = agreed_labels(known.fit.head, known.fit, len(known.fit), force=allowed.get("force", False))
    guard = Guard.fit(
        known.fit,
        head=known.fit.head,
        detector=with_negatives(chosen, allowed.get("negatives"), known),
        calibration=known.calibration,
        calibration_share=calibration_share,
        per_class=allowed.get("per_class", False),
        class_names=known.class_names if class_names is None else class_names,
        provenance=known.provenance,
        origin=known.origin,
        false_alarm_rate=false_alarm_rate,
    )
    rows = len(known.fit) - (len(guard.calibration) if known.calibration is None else 0)
    return FittedGuard(guard, rows, None if agreed is None else agreed.share, notes_on(guard, agreed))


def open_known(
    named: DataPaths,
    model: str | None,
    *,
    weights: str | Path | None,
    settings: ExtractionSettings | None,
    progress: Watch,
    head: Head | nn.Linear | str | Path | None,
    accept_code_change: bool,
) -> KnownData:
    """The features at paths: those in files, those of stores, and of pictures, extracted now."""
    if named.hold_features:
        require_nothing_of_pictures(named, model, weights, settings)
        return of_arrays(named, head)
    _require_apart(named.all, settings)

    def opened(path: str | Path) -> FeatureStore:
        return open_features(path, model, weights=weights, settings=settings, progress=progress)

    if not all(is_store(path) for path in named.all):
        require_no_head(head)  # before anything is extracted
    return _of_stores(named, opened, weights, accept_code_change, head)


def _of_stores(
    named: DataPaths,
    opened: Callable[[str | Path], FeatureStore],
    weights: str | Path | None,
    accept: bool,
    head: Head | nn.Linear | str | Path | None,
) -> KnownData:
    """Stores of one model, as they are or extracted now; those of an encoder take the head that is given."""
    store = _together([opened(path) for path in named.fit], accept, head)
    held_out = None if named.calibration is None else opened(named.calibration)
    first = store.parts[0]
    if held_out is not None:
        require_same_model(first, held_out, accept_code_change=accept)
        require_labels(held_out)
    if first.manifest.recipe.model == IMPORTED:
        return KnownData(store, held_out, store.class_names, origin=Origin.of_store(first))
    return KnownData(store, held_out, store.class_names, Provenance.of_store(first, weights))


def _require_apart(paths: Sequence[str | Path], settings: ExtractionSettings | None) -> None:
    """Every path can be opened: it is known before the first picture is read."""
    for path in paths:
        require_data(path, settings)


def _together(
    parts: list[FeatureStore], accept_code_change: bool, head: Head | nn.Linear | str | Path | None
) -> StoreParts:
    """Parts of one model whose labels number the same classes, as one."""
    for part in parts:
        require_same_model(parts[0], part, accept_code_change=accept_code_change)
        require_same_classes(parts[0], part)
        require_labels(part)
    if any(part.head is not None for part in parts):
        require_no_head(head)
    return StoreParts(parts, given_head(head, parts[0].width))


def agreed_labels(head: Head | None, data: Iterable[Batch], rows: int, *, force: bool) -> Agreement | None:
    """How far classifier and labels agree; refused where it is too little."""
    if head is None:
        return None
    agreed = agreement(head, data, rows)
    if agreed is not None and agreed.problem is not None and not force:
        raise InputError(f"{agreed.problem} To fit all the same: --force (force=True in Python)")
    return agreed


def notes_on(guard: Guard, agreed: Agreement | None) -> tuple[str, ...]:
    """What the classifier's agreement with the labels may mean, and what to know of the score."""
    detector, head = guard.detector, guard.detector.head
    caution = None if head is None else type(detector).caution(detector.options(), head.classes)
    problem = None if agreed is None else agreed.problem
    told = (problem, caution, note_on(detector, guard.model_score))
    return tuple(note for note in told if note is not None)
