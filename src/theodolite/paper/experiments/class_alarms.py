"""What a threshold by class is worth: false alarms of each predicted class, and outliers caught.

Over random halves of the test images, one calibrates and the other is judged, with one threshold for all
classes and with one for each. Every figure is a mean over the splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import FeatureSet
from ...detectors import RECOMMENDED, Detector, create
from ...guard.by_class import ClassCalibration, pool_small
from ...guard.calibration import FALSE_ALARM_RATE, Calibration
from ...report.tables import Table, printed
from ..studies import TableStudy
from ._registry import Context, Need, Produced, experiment

FOLDER = "cifar10-densenet"
SCORES = (RECOMMENDED, "ora", "msp")
SPLITS = 100


@dataclass(frozen=True)
class ClassAlarms:
    """Per cent flagged: of each predicted class of new ID images, of all of them, and of each OOD set."""

    score: str
    thresholds: str
    classes: tuple[float, ...]
    overall: float
    caught: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ByClass(TableStudy):
    format = "theodolite-class-alarms/1"

    splits: int
    ood_sets: tuple[str, ...]
    rows: tuple[ClassAlarms, ...]

    def tables(self) -> list[Table]:
        header = ["score", "thresholds", "fewest in a class", "most in a class", "all ID", *self.ood_sets]
        rows = [
            [
                row.score,
                row.thresholds,
                *map(printed, (min(row.classes), max(row.classes), row.overall, *row.caught)),
            ]
            for row in self.rows
        ]
        return [Table.of_texts(self.title, header, rows)]


@experiment("class-alarms", "One threshold for all classes, and one for each predicted class", Need(FOLDER))
def class_alarms(context: Context) -> Produced:
    subject = from_folder(context.root / FOLDER)
    ood = {name: _rows(data) for name, data in subject.ood.items()}
    known, rows = _rows(subject.test), []
    for name in SCORES:
        context.say(f"class-alarms: {name}")
        detector = create(name).fit(subject.fit, head=subject.head)
        rows += _compared(detector, known, ood)
    study = ByClass(
        title=f"% flagged on {FOLDER} at a promise of {100 * FALSE_ALARM_RATE:g} %, {SPLITS} splits",
        command="theodolite reproduce class-alarms",
        splits=SPLITS,
        ood_sets=tuple(ood),
        rows=tuple(rows),
    )
    return {"class-alarms": study}


def _rows(data: FeatureSet) -> Tensor:
    return torch.cat([batch for batch, _, _ in data])


def _compared(detector: Detector, known: Tensor, ood: Mapping[str, Tensor]) -> list[ClassAlarms]:
    head = detector.head
    assert head is not None
    scores, predicted = detector.score(known), head(known).argmax(dim=1)
    strange = [(detector.score(rows), head(rows).argmax(dim=1)) for rows in ood.values()]
    found: dict[str, list[Tensor]] = {"one": [], "by class": []}
    for seed in range(SPLITS):
        order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
        mine, new = order[: len(order) // 2], order[len(order) // 2 :]
        groups = pool_small(torch.bincount(predicted[mine], minlength=head.classes))
        for name, calibration in (
            ("one", Calibration(scores[mine])),
            ("by class", ClassCalibration(scores[mine], predicted[mine], groups)),
        ):
            flagged = calibration.is_ood(scores[new], FALSE_ALARM_RATE, predicted[new]).double()
            classes = [flagged[predicted[new] == label].mean() for label in range(head.classes)]
            caught = [
                calibration.is_ood(values, FALSE_ALARM_RATE, labels).double().mean()
                for values, labels in strange
            ]
            found[name].append(torch.stack([*classes, flagged.mean(), *caught]))
    return [_row(detector, name, torch.stack(splits), head.classes) for name, splits in found.items()]


def _row(detector: Detector, thresholds: str, splits: Tensor, classes: int) -> ClassAlarms:
    shares = [round(100 * share, 4) for share in splits.mean(dim=0).tolist()]
    return ClassAlarms(
        score=detector.record.title,
        thresholds=thresholds,
        classes=tuple(shares[:classes]),
        overall=shares[classes],
        caught=tuple(shares[classes + 1 :]),
    )
