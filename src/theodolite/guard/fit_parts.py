"""From parts to a guard: merged in pairs, a detector fitted on what they learnt, calibrated on what they held
out."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

from ..core.errors import CalibrationWarning, InputError, TheodoliteWarning
from ..detectors import Detector
from ..features.arrays import ArrayParts, open_array
from ..features.cached import open_features
from ..features.engine import require_here
from ..features.folders import holds_features
from ..features.settings import ExtractionSettings, Watch
from ..features.store import FeatureStore, is_store
from ..features.store_checks import require_labels, require_unseen_contents
from ..reference.seen import Seen
from .calibrated import calibrate
from .calibration import FALSE_ALARM_RATE, check_rate
from .choice import choose_detector
from .fitting import FittedGuard, agreed_labels, notes_on
from .guard import Guard
from .negatives import require_own_words
from .origin import require_array, require_like_origin
from .part import HELD_OUT_ROWS, Part
from .part_source import require_complete
from .provenance import require_store
from .shown import Shown, asking, require_several, suited


class PartsAllowed(TypedDict, total=False):
    """What is rarer, and what the caller knows better: see `fit_parts`."""

    weights: str | Path | None
    settings: ExtractionSettings | None
    progress: Watch
    per_class: bool | int
    incomplete: bool
    force: bool
    accept_code_change: bool


def fit_parts(
    parts: Iterable[str | Path | Part],
    *,
    detector: Detector | str | None = None,
    calibration: str | Path | None = None,
    model: str | None = None,
    class_names: Sequence[str] | None = None,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    **allowed: Unpack[PartsAllowed],
) -> FittedGuard:
    """The guard that `fit_guard` gives on the data that all ``parts`` were collected from (`collect`).

    Files are read one at a time. ``detector`` is by default the one that was collected for. The guard is
    calibrated on the rows that the parts hold out, at most 20,000 of them, or on ``calibration`` data, where
    they hold out none: pictures, of which the ``model`` with ``weights`` gives the features, a feature store
    or features in a file. Parts that are missing are an error, unless ``incomplete`` says that they may be.
    ``class_names``, ``per_class``, ``force`` and ``accept_code_change`` are as for `fit_guard`.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(300) % 3
    >>> rows = means[labels] + np.random.default_rng(0).normal(size=(300, 8))
    >>> np.savez("train.npz", features=rows, labels=labels)
    >>> halves = [th.ExtractionSettings(part=part) for part in ("1/2", "2/2")]
    >>> parts = [th.collect("train.npz", head=th.Head(means), settings=half) for half in halves]
    >>> th.fit_parts(parts).guard.verdicts(means).predicted
    array([0, 1, 2])
    """
    check_rate(false_alarm_rate)
    _require_use_of_engine(calibration, allowed.get("settings"))
    whole = Part.merged(one if isinstance(one, Part) else Part.load(one) for one in parts)
    require_complete(whole.source.lots, incomplete=allowed.get("incomplete", False))
    if whole.first_look:
        raise InputError(
            "the parts are a first look, from which a shaping learns: collect again with it, --first-look "
            "'look-*.safetensors' (first_look= in Python), and fit on the parts that this gives"
        )
    own_share = calibration is None
    _require_held_out(whole, own_share)
    chosen = _chosen(detector, whole)
    require_own_words(chosen, whole.source.provenance)
    chosen.fit(whole.reference(chosen))
    if calibration is not None:
        allowed["settings"] = replace(allowed.get("settings") or ExtractionSettings(), score=asking(chosen))
    data = whole.calibration() if calibration is None else _opened(calibration, model, whole, allowed)
    agreed = agreed_labels(whole.head, *whole.labelled_rows(), force=allowed.get("force", False))
    per_class = allowed.get("per_class", False)
    scores, calibrated = calibrate(chosen, data, whole.head, own_share=own_share, per_class=per_class)
    doubts = [calibrated.doubt, scores.doubt(false_alarm_rate)]
    if not (isinstance(data, FeatureStore) and _told_by_pictures(whole, data)):
        doubts.append(whole.rows.doubt(data, whole.head, share=own_share))
    for doubt in filter(None, doubts):
        warnings.warn(doubt, CalibrationWarning, stacklevel=2)
    guard = Guard.of_own(
        chosen,
        scores,
        whole.head,
        class_names=whole.source.class_names if class_names is None else class_names,
        provenance=whole.source.provenance,
        origin=whole.source.origin,
        false_alarm_rate=false_alarm_rate,
        calibrated=calibrated,
    )
    share = None if agreed is None else agreed.share
    return FittedGuard(guard, whole.fitted_on, share, notes_on(guard, agreed))


def _require_use_of_engine(calibration: str | Path | None, settings: ExtractionSettings | None) -> None:
    """Refuse a Ray that nothing would be done on: only features of calibration pictures are its work."""
    kind = None if settings is None else settings.kind
    if settings is not None and (
        calibration is None or is_store(calibration) or holds_features(calibration, kind)
    ):
        require_here(settings.running.engine, "to merge parts")


def _chosen(detector: Detector | str | None, whole: Part) -> Detector:
    """The score to fit, with what its shaping has learnt."""
    if detector is None:
        if len(whole.detectors) > 1:
            names = ", ".join(one.record.name for one in whole.detectors)
            raise InputError(
                f"the parts were collected for {names}: say which to fit, --detector (detector=)"
            )
        return copy.deepcopy(whole.detectors[0])
    source = whole.source.provenance or whole.source.origin
    shown = Shown() if source is None else Shown(source.model_score)
    chosen = suited(copy.deepcopy(choose_detector(detector)), shown)
    require_several(chosen)
    shaping = chosen.shaping
    if shaping is not None and not shaping.ready:
        known = [one.shaping for one in whole.detectors if one.shaping is not None]
        learnt = [one for one in known if one.spec == shaping.spec]
        if not learnt:
            raise InputError(
                f"the parts were not collected for {shaping.spec}: collect again with --detector "
                f"{chosen.record.name}+{shaping.spec}"
            )
        chosen.shaping = copy.deepcopy(learnt[0])
    return chosen


def _require_held_out(whole: Part, own_share: bool) -> None:
    """Either the parts hold rows out, or there is other data to calibrate on; of too many rows, say so."""
    if own_share and whole.share == 0:
        raise InputError(
            "the parts hold no rows out to calibrate on: pass calibration data (--calibration-data), or "
            "collect with a --calibration-share"
        )
    if not own_share and whole.share:
        raise InputError(
            f"the parts hold out {100 * whole.share:g} % of their samples to calibrate on: leave the "
            f"calibration data out, or collect with --calibration-share 0 (calibration_share=0 in Python)"
        )
    if own_share and whole.offered > len(whole.held_out):
        warnings.warn(
            f"of {whole.offered:,} samples that were held out to calibrate on the parts keep "
            f"{len(whole.held_out):,}, at most {HELD_OUT_ROWS:,}: a smaller --calibration-share leaves more "
            f"to fit on",
            TheodoliteWarning,
            stacklevel=3,
        )


def _opened(
    path: str | Path, model: str | None, whole: Part, allowed: PartsAllowed
) -> FeatureStore | ArrayParts:
    """Calibration data of its own, of the model whose features the parts hold."""
    settings, accept = allowed.get("settings"), allowed.get("accept_code_change", False)
    provenance, width = whole.source.provenance, whole.held_out.width
    if holds_features(path, None if settings is None else settings.kind):
        if model is not None:
            raise InputError(f"--model is for images, but {path} holds features: leave it out")
        array = open_array(path)
        require_array(array, width, provenance, whole.source.origin)
        return ArrayParts([array], whole.head)
    store = open_features(
        path,
        model,
        weights=allowed.get("weights"),
        settings=settings,
        progress=allowed.get("progress", lambda _: None),
    )
    require_store(provenance, store, accept_code_change=accept)
    if provenance is None:
        require_like_origin(whole.source.origin, store, width)
    require_labels(store)
    return store


def _told_by_pictures(whole: Part, store: FeatureStore) -> bool:
    """Whether the pictures of both are known, and are others; refused if they are not."""
    contents = store.contents()
    if whole.contents is None or contents is None:
        return False
    asked = Seen(limit=len(contents))
    asked.add(contents)
    compared, found = whole.contents.comparable(asked)
    require_unseen_contents(found, compared)
    return whole.contents.whole
