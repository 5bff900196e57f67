"""The published numbers that belong beside a measured one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import published
from ..detectors.spec import Entry
from .datasets import card
from .feature_sets import FeatureSet
from .protocols import PROTOCOLS, TEST, Part
from .subject import Subject

AVERAGE = published.AVERAGE
_MAY_LACK = 0.01


def published_beside(subject: Subject, entry: Entry, ood: str, metric: str) -> list[dict[str, Any]]:
    """All printed cells for one model, entry, OOD set and metric; none for a model not in the paper."""
    if subject.protocol is None or subject.backbone is None or not _comparable(subject, ood):
        return []
    options = entry.published_options()
    if subject.head.unit_features:
        options["head"] = "zero-shot"
    return _cells(subject.protocol, entry.name, ood, metric, options, backbone=subject.backbone)


def published_ensemble(
    subjects: Sequence[Subject], entry: Entry, ood: str, metric: str
) -> list[dict[str, Any]]:
    """The same for the sum of the scores of several models."""
    backbones = sorted(subject.backbone for subject in subjects if subject.backbone is not None)
    protocol = subjects[0].protocol
    known = len(backbones) == len(subjects) and all(_comparable(subject, ood) for subject in subjects)
    if protocol is None or not known:
        return []
    options = {**entry.published_options(), "ensemble": backbones}
    return _cells(protocol, entry.name, ood, metric, options)


def _comparable(subject: Subject, ood: str) -> bool:
    """A figure compares with the paper's on the paper's sets only, and an average over all of them."""
    if subject.protocol not in PROTOCOLS:
        return False
    known = PROTOCOLS[subject.protocol]
    parts = [part for part in known.ood if ood in (part.name, AVERAGE)]
    sets = {TEST: subject.test, **subject.ood}
    return all(_whole(part, sets.get(part.name)) for part in (known.test, *parts))


def _whole(part: Part, rows: FeatureSet | None) -> bool:
    """Whether a set has the samples of its card; some may have been unreadable."""
    if rows is None or part.card is None:
        return False
    count = card(part.card).split(part.split).count
    return abs(len(rows) - count) <= _MAY_LACK * count


def _cells(
    protocol: str,
    detector: str,
    ood: str,
    metric: str,
    options: Mapping[str, Any],
    backbone: str | None = None,
) -> list[dict[str, Any]]:
    found = published.lookup(
        protocol=protocol,
        backbone=backbone,
        detector=detector,
        ood=_spelling(protocol, ood),
        metric=metric,
        options=options,
    )
    return [
        {
            "printed": cell.printed,
            "table": cell.table,
            "row": cell.row,
            "column": cell.column,
            "caveats": [f"{caveat.kind}: {caveat.note}" for caveat in cell.caveats],
        }
        for cell in found
    ]


def _spelling(protocol: str, ood: str) -> str:
    """The paper's name of an OOD set."""
    parts = PROTOCOLS[protocol].ood if protocol in PROTOCOLS else ()
    return next((part.published or part.name for part in parts if part.name == ood), ood)


def shown(cells: Sequence[Mapping[str, Any]]) -> str | None:
    """One printed number for a table: the first cell, with † where tables disagree or it has a caveat."""
    if not cells:
        return None
    doubtful = len({cell["printed"] for cell in cells}) > 1 or any(
        not caveat.startswith("unstated") for cell in cells for caveat in cell["caveats"]
    )
    return f"{cells[0]['printed']}{'†' if doubtful else ''}"
