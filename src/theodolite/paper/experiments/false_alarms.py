"""What calibration data is worth: false alarms on new ID images, calibrated on learnt ones or on unseen ones.

A guard is fitted on the images that the network was trained on. Once a fifth of them is held out to calibrate
on, once it is the first half of the test images; both guards then judge the second half.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import FeatureSet
from ...detectors import RECOMMENDED, detector_record
from ...evaluation import head_accuracy
from ...guard.calibration import FALSE_ALARM_RATE
from ...guard.guard import Guard
from ...report.tables import Table, printed
from ..studies import TableStudy
from ._registry import Context, Need, Produced, experiment

FOLDER = "cifar10-densenet"
SCORES = (RECOMMENDED, "ora", "msp")


@dataclass(frozen=True)
class Accuracy:
    """Shares of images that the network gets right."""

    learnt: float | None
    unseen: float | None


@dataclass(frozen=True)
class Samples:
    fit: int
    unseen: int
    judged: int


@dataclass(frozen=True)
class Flagged:
    """Per cent of new ID images that a guard flags, by what it was calibrated on."""

    score: str
    learnt: float
    unseen: float


@dataclass(frozen=True, kw_only=True)
class FalseAlarms(TableStudy):
    format = "theodolite-false-alarms/1"

    accuracy: Accuracy
    samples: Samples
    rows: tuple[Flagged, ...]

    def tables(self) -> list[Table]:
        rows = [[row.score, printed(row.learnt), printed(row.unseen)] for row in self.rows]
        right = [printed(100 * (share or 0)) for share in (self.accuracy.learnt, self.accuracy.unseen)]
        header = ["% of new ID images flagged", "calibrated on learnt images", "on unseen images"]
        return [Table.of_texts(self.title, header, [*rows, ["(accuracy of the network)", *right]])]


@experiment(
    "false-alarms", "Guards calibrated on images the network has learnt, and on unseen ones", Need(FOLDER)
)
def false_alarms(context: Context) -> Produced:
    subject = from_folder(context.root / FOLDER)
    test = _features(subject.test)
    unseen, new = test[: len(test) // 2], test[len(test) // 2 :]
    rows = []
    for name in SCORES:
        context.say(f"false-alarms: {name}")
        learnt = Guard.fit(subject.fit, head=subject.head, detector=name)
        honest = Guard.fit(subject.fit, head=subject.head, detector=name, calibration=unseen)
        rows.append(Flagged(detector_record(name).title, _flagged(learnt, new), _flagged(honest, new)))
    study = FalseAlarms(
        title=f"False alarms on {FOLDER}, promised at most {100 * FALSE_ALARM_RATE:g} %",
        command="theodolite reproduce false-alarms",
        accuracy=Accuracy(
            head_accuracy(subject.head, subject.fit), head_accuracy(subject.head, subject.test)
        ),
        samples=Samples(len(subject.fit), len(unseen), len(new)),
        rows=tuple(rows),
    )
    return {"false-alarms": study}


def _features(rows: FeatureSet) -> torch.Tensor:
    return torch.cat([batch for batch, _, _ in rows])


def _flagged(guard: Guard, features: torch.Tensor) -> float:
    """Share of the features that are flagged, in per cent."""
    return round(100 * float(torch.as_tensor(guard.verdicts(features).is_ood).double().mean()), 4)
