"""The published numbers that belong beside a measured one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..detectors.spec import DetectorSpec
from ..published import Options, PublishedCell, find_leaderboard, load_leaderboard, lookup
from .cells import PublishedValue
from .datasets import dataset
from .feature_sets import AVERAGE, TEST, FeatureSet
from .protocols import ProtocolSet, find_protocol
from .subject import Subject

ACCURACY = "id-accuracy"
_MAY_LACK = 0.01


def published_beside(
    subject: Subject, spec: DetectorSpec, ood: str, metric: str
) -> tuple[PublishedValue, ...]:
    """All printed numbers for one model, score, OOD set and metric; none for a model not in the paper."""
    if (
        subject.protocol is None
        or subject.backbone is None
        or not _comparable(subject, spec, ood, subject.ood)
    ):
        return ()
    options: Options = spec.published_options()
    if subject.published_head is not None:
        options = {**options, "head": subject.published_head}
    return _values(subject.protocol, spec.name, ood, metric, options, backbone=subject.backbone)


def published_accuracy(subject: Subject) -> tuple[PublishedValue, ...]:
    """What is printed as the accuracy of a model's classifier, where all of the paper's test set was judged.

    It belongs to the ID data: a table of another protocol on the same ID data speaks of the same figure.
    """
    known = find_protocol(subject.protocol)
    if known is None or subject.backbone is None or not _whole(known.test, subject.test):
        return ()
    options: Options = {"head": "zero-shot"} if subject.head.unit_features else {}
    found = []
    for cell in lookup(backbone=subject.backbone, metric=ACCURACY, options=options):
        other = find_protocol(cell.protocol)
        if other is not None and (other.test.dataset, other.test.split) == (
            known.test.dataset,
            known.test.split,
        ):
            found.append(published_value(cell))
    return tuple(found)


def published_ensemble(
    subjects: Sequence[Subject], spec: DetectorSpec, ood: str, metric: str
) -> tuple[PublishedValue, ...]:
    """The same for the sum of the scores of several models."""
    backbones = tuple(sorted(subject.backbone for subject in subjects if subject.backbone is not None))
    protocol = subjects[0].protocol
    common = set.intersection(*(set(subject.ood) for subject in subjects))
    known = all(_comparable(subject, spec, ood, common) for subject in subjects)
    if protocol is None or len(backbones) < len(subjects) or not known:
        return ()
    return _values(protocol, spec.name, ood, metric, {**spec.published_options(), "ensemble": backbones})


def leaderboard_beside(subject: Subject) -> str | None:
    """The leaderboard whose figures compare with a subject's.

    All sets are here, with all their samples, and the model tells as many classes apart.
    """
    known = find_protocol(subject.protocol)
    if known is None or (subject.shifted and set(subject.shifted) != {part.name for part in known.shifted}):
        return None
    counts = {
        TEST: len(subject.test) - sum(subject.shifted.values()),
        **subject.shifted,
        **{name: len(rows) for name, rows in subject.ood.items()},
    }
    judged = (known.test, *known.ood, *(known.shifted if subject.shifted else ()))
    if not all(_as_many(part, counts.get(part.name)) for part in judged):
        return None
    board = find_leaderboard(known.name, full_spectrum=bool(subject.shifted))
    return board if board is not None and load_leaderboard(board).classes == subject.head.classes else None


def _comparable(subject: Subject, spec: DetectorSpec, ood: str, averaged: Collection[str]) -> bool:
    """A figure compares with the paper's on the paper's sets only, and an average over just these.

    ``averaged`` are the OOD sets of the average. The score must be set as the field does on that protocol:
    joined models of several protocols share one.
    """
    known = find_protocol(subject.protocol)
    if known is None or spec.field_settings() != dict(known.settings.get(spec.name, {})):
        return False
    if ood == AVERAGE and set(averaged) != {part.name for part in known.ood}:
        return False
    sets = [part for part in known.ood if ood in (part.name, AVERAGE)]
    rows = {TEST: subject.test, **subject.ood}
    return all(_whole(part, rows.get(part.name)) for part in (known.test, *sets))


def _whole(part: ProtocolSet, rows: FeatureSet | None) -> bool:
    return _as_many(part, None if rows is None else len(rows))


def _as_many(part: ProtocolSet, rows: int | None) -> bool:
    """Whether a set has the samples of its data set; some may have been unreadable."""
    count = None if part.dataset is None else dataset(part.dataset).split(part.split).count
    return rows is not None and count is not None and abs(rows - count) <= _MAY_LACK * count


def _values(
    protocol: str, detector: str, ood: str, metric: str, options: Options, backbone: str | None = None
) -> tuple[PublishedValue, ...]:
    found = lookup(
        protocol=protocol,
        backbone=backbone,
        detector=detector,
        ood=_spelling(protocol, ood),
        metric=metric,
        options=options,
    )
    return tuple(published_value(cell) for cell in found)


def published_value(cell: PublishedCell) -> PublishedValue:
    """A printed number with its place and caveats."""
    caveats = tuple(f"{caveat.kind}: {caveat.note}" for caveat in cell.caveats)
    return PublishedValue(cell.printed, cell.table, cell.row, cell.column, caveats)


def _spelling(protocol: str, ood: str) -> str:
    """The paper's name of an OOD set."""
    known = find_protocol(protocol)
    sets = () if known is None else known.ood
    return next((part.published or part.name for part in sets if part.name == ood), ood)
