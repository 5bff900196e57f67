"""A fit on Ray: tasks collect parts of the rows, and merge them in pairs to the one that is fitted on.

Parts are those of `collect`, and are merged as `fit_parts` merges them: the guard is the one that one machine
fits, whatever the number of tasks and whoever does them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from ..core.errors import InputError
from ..detectors import Detector
from ..features.arrays import ArrayParts
from ..features.folders import HOLDS_FEATURES
from ..features.layer_rows import layer_names
from ..features.ray_cluster import cluster, import_ray, merged_by_tasks, task_for
from ..features.ray_extract import required_engine
from ..features.settings import ExtractionSettings, Watch
from ..features.store import FeatureStore
from ..reference.head import Head
from .calibration import FALSE_ALARM_RATE, check_rate
from .choice import require_head
from .collecting import collect
from .fit_data import DataPaths, KnownData
from .fit_parts import fit_parts
from .fitting import Allowed, FittedGuard, agreed_labels, notes_on, open_known
from .guard import CALIBRATION_SHARE
from .holdout import check_share
from .negatives import choose_for_words, with_negatives
from .part import Part
from .shown import asking, shown_of

# Rows that are worth a task of their own, and tasks for each core: enough that none waits long for the last.
_ROWS, _TASKS = 4096, 4
# Rows of which the driver compares labels and answers itself, all of them, as one machine does; of more those
# that are held out tell enough.
_COMPARED = 100_000


def fit_on_ray(
    data: str | Path | Sequence[str | Path],
    model: str | None = None,
    *,
    weights: str | Path | None = None,
    calibration: str | Path | None = None,
    calibration_share: float = CALIBRATION_SHARE,
    detector: Detector | str | None = None,
    class_names: Sequence[str] | None = None,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    settings: ExtractionSettings,
    progress: Watch = lambda _: None,
    **allowed: Unpack[Allowed],
) -> FittedGuard:
    """What `fit_guard` does, on the cluster of the settings: features of pictures are extracted there, into
    the cache."""
    engine = required_engine(settings.running)
    check_rate(false_alarm_rate)
    check_share(calibration_share)
    chosen = choose_for_words(detector, allowed.get("negatives"))
    named = DataPaths.of(data, calibration, settings)
    _require_one_layer(chosen, several=len(layer_names(settings.layer)) > 1)  # before any picture is read
    accept = allowed.get("accept_code_change", False)
    with cluster(engine) as ray:
        known = open_known(
            named,
            model,
            weights=weights,
            settings=replace(settings, score=asking(chosen)),
            progress=progress,
            head=allowed.get("head"),
            accept_code_change=accept,
        )
        _require_one_layer(chosen, several=shown_of(known.fit).rows is not None)
        require_head(chosen, known.fit.head)
        chosen = with_negatives(chosen, allowed.get("negatives"), known)
        force = allowed.get("force", False)
        compared = len(known.fit) <= _COMPARED
        agreed = agreed_labels(known.fit.head, known.fit, len(known.fit), force=force) if compared else None
        share = 0.0 if named.calibration is not None else calibration_share
        plan = _Collecting.of(known, named, chosen, share, weights, accept)
        whole = plan.collected(ray, _count(ray, known))
    source = replace(
        whole.source, provenance=known.provenance, origin=known.origin, class_names=known.class_names
    )
    fitted = fit_parts(
        [replace(whole, source=source)],
        calibration=_calibration(known, named),
        class_names=class_names,
        false_alarm_rate=false_alarm_rate,
        per_class=allowed.get("per_class", False),
        force=force or compared,
        accept_code_change=accept,
        settings=ExtractionSettings(kind=HOLDS_FEATURES) if named.hold_features else None,
    )
    if not compared:
        return fitted
    share_agreed = None if agreed is None else agreed.share
    return replace(fitted, agreement=share_agreed, notes=notes_on(fitted.guard, agreed))


def _require_one_layer(detector: Detector, *, several: bool) -> None:
    """Refuse features of several layers: their scores read the rows more than once, which a merge cannot."""
    if several or detector.of_layers:
        raise InputError(
            "scores of several layers read their rows more than once, and are not fitted on Ray: extract "
            "with --engine ray, and fit on that store without it"
        )


@dataclass(frozen=True)
class _Collecting:
    """What a task needs to collect a part of stores or of files of features, which all machines see."""

    paths: tuple[Path, ...]
    detector: Detector
    share: float
    head: Head | None
    weights: str | Path | None
    kind: str | None
    accept: bool

    @classmethod
    def of(
        cls,
        known: KnownData,
        named: DataPaths,
        detector: Detector,
        share: float,
        weights: str | Path | None,
        accept: bool,
    ) -> _Collecting:
        if isinstance(known.fit, ArrayParts):
            # As they were given: files of the same name are told apart by that, and rows are called by it.
            paths = tuple(Path(path).expanduser() for path in named.fit)
            return cls(paths, detector, share, known.fit.head, None, HOLDS_FEATURES, accept)
        paths = tuple(store.path.resolve() for store in known.fit.parts)
        own = any(store.head is not None for store in known.fit.parts)
        return cls(paths, detector, share, None if own else known.fit.head, weights, None, accept)

    def collected(self, ray: Any, count: int) -> Part:
        """All parts as one; a shaping that learns has its first look at all of them first."""
        look: list[Any] = []
        learns = self.detector.shaping is not None and not self.detector.shaping.ready
        if learns:
            look = [ray.put(self._merged(ray, count, look))]
        return self._merged(ray, count, look)

    def _merged(self, ray: Any, count: int, look: list[Any]) -> Part:
        shared = ray.put(self)
        units = ((number, count, [shared], look) for number in range(1, count + 1))
        whole = merged_by_tasks(ray, [task_for(ray, _part, unit) for unit in units])
        assert isinstance(whole, Part)
        return whole

    def part(self, number: int, count: int, look: Sequence[Part]) -> Part:
        """In a worker: one of several equal parts."""
        missing = [path for path in self.paths if not path.exists()]
        if missing:
            raise InputError(
                f"a worker does not see {missing[0]}: it must be on a file system that all machines of the "
                f"cluster share (XDG_CACHE_HOME for features that are kept)"
            )
        return collect(
            self.paths,
            detectors=[self.detector],
            weights=self.weights,
            calibration_share=self.share,
            first_look=look,
            settings=ExtractionSettings(kind=self.kind, part=f"{number}/{count}"),
            head=self.head,
            accept_code_change=self.accept,
        )


def _part(unit: tuple[int, int, list[Any], list[Any]]) -> Part:
    """In a worker: a part by its number; what all of them share comes from Ray's store."""
    number, count, (shared,), look = unit
    ray = import_ray()
    plan: _Collecting = ray.get(shared)
    return plan.part(number, count, [ray.get(one) for one in look])


def _count(ray: Any, known: KnownData) -> int:
    """How many parts: each has a row of every file."""
    lengths = [len(one) for one in known.fit.parts]
    cores = int(ray.cluster_resources().get("CPU", 1))
    return max(1, min(_TASKS * cores, sum(lengths) // _ROWS, *lengths))


def _calibration(known: KnownData, named: DataPaths) -> str | Path | None:
    """Where calibration data of its own is: the store of pictures, or the file of features."""
    return known.calibration.path if isinstance(known.calibration, FeatureStore) else named.calibration
