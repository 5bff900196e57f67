"""From paths to a guard: features extracted or opened, checked to belong together, a detector fitted.

fitted = fit_guard("pictures/train", "timm:resnet18", calibration="pictures/val")
fitted.guard.save("guard.safetensors")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import InputError
from ..detectors import Detector
from ..evaluation import head_accuracy
from ..features.cached import open_features, require_data
from ..features.settings import ExtractionSettings, Watch
from ..features.store import FeatureStore, StoreParts
from ..features.store_checks import require_labels, require_same_classes, require_same_model
from .calibration import check_rate
from .choice import choose_detector
from .guard import CALIBRATION_SHARE, FALSE_ALARM_RATE, Guard
from .holdout import check_share
from .provenance import Provenance

# Rows whose labels are compared with the head's answers.
_LOOKED_AT = 10_000
# Below this share of agreement head and labels most likely count different classes.
_AGREES = 0.2
# From this share on it may have been trained on them.
_LEARNT = 0.99


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
) -> FittedGuard:
    """Fit a detector on in-distribution data, pictures or feature stores, and calibrate it on others.

    Several paths are parts of one data set. A feature store knows its ``model``; pictures need one, and
    their features are kept in the cache. Without ``calibration`` data, a share is held out. ``detector`` is
    as for `Guard.fit`, ``class_names`` are by default the model's own.
    """
    check_rate(false_alarm_rate)
    check_share(calibration_share)
    chosen = choose_detector(detector)
    named = [data] if isinstance(data, str | Path) else list(data)
    _require_apart([*named, *([] if calibration is None else [calibration])], settings)

    def opened(path: str | Path) -> FeatureStore:
        return open_features(path, model, weights=weights, settings=settings, progress=progress)

    store = _together([opened(path) for path in named])
    held_out = None if calibration is None else opened(calibration)
    first = store.parts[0]
    if held_out is not None:
        require_same_model(first, held_out)
    guard = Guard.fit(
        store,
        head=store.head,
        detector=chosen,
        calibration=held_out,
        calibration_share=calibration_share,
        class_names=store.class_names if class_names is None else class_names,
        provenance=Provenance.of_store(first, weights),
        false_alarm_rate=false_alarm_rate,
    )
    fitted_on = len(store) - (len(guard.calibration) if held_out is None else 0)
    agreement = head_accuracy(store.head, store, rows=_LOOKED_AT)
    return FittedGuard(guard, fitted_on, agreement, _notes(agreement, own_share=held_out is None))


def _require_apart(paths: list[str | Path], settings: ExtractionSettings | None) -> None:
    """Every path is named once and can be opened: both are known before the first picture is read."""
    if not paths:
        raise InputError("data is empty: name at least one path with in-distribution data")
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise InputError(
            "the same data is named twice: parts to fit on, and data to calibrate on, must differ"
        )
    for path in paths:
        require_data(path, settings)


def _together(parts: list[FeatureStore]) -> StoreParts:
    """Parts of one model whose labels number the same classes, as one."""
    for part in parts:
        require_same_model(parts[0], part)
        require_same_classes(parts[0], part)
        require_labels(part)
    return StoreParts(parts)


def _notes(agreement: float | None, *, own_share: bool) -> tuple[str, ...]:
    """What the classifier's agreement with the labels may mean."""
    notes = []
    if agreement is not None and agreement <= _AGREES:
        notes.append("a folder's labels number its own sub-folders, not the model's classes")
    if agreement is not None and agreement >= _LEARNT and own_share:
        notes.append(
            "if the classifier was trained on this data, new data scores lower, and more of it is flagged "
            "than promised: then pass data it has not seen as --calibration-data"
        )
    return tuple(notes)
