"""What calibration data is worth: false alarms on new ID images, calibrated on learnt ones or on unseen ones.

A guard is fitted on the images that the network was trained on. Once a fifth of them is held out to calibrate
on, once it is the first half of the test images; both guards then judge the second half.
"""

from __future__ import annotations

from typing import Any

import torch

from ...benchmarks.feature_sets import FeatureSet
from ...benchmarks.results import versions
from ...benchmarks.subject import from_folder
from ...detectors import RECOMMENDED, detector_record
from ...evaluation.evaluation import head_accuracy
from ...guard.guard import FALSE_ALARM_RATE, Guard
from ._registry import Context, Need, Produced, experiment

FOLDER = "cifar10-densenet"
SCORES = (RECOMMENDED, "ora", "msp")


@experiment(
    "false-alarms", "Guards calibrated on images the network has learnt, and on unseen ones", Need(FOLDER)
)
def false_alarms(context: Context) -> Produced:
    subject = from_folder(context.root / FOLDER)
    test = _features(subject.test)
    unseen, new = test[: len(test) // 2], test[len(test) // 2 :]
    rows: list[dict[str, Any]] = []
    for name in SCORES:
        context.say(f"false-alarms: {name}")
        learnt = Guard.fit(subject.fit, head=subject.head, detector=name)
        honest = Guard.fit(subject.fit, head=subject.head, detector=name, calibration=unseen)
        rows.append(
            {
                "score": detector_record(name).title,
                "learnt": _flagged(learnt, new),
                "unseen": _flagged(honest, new),
            }
        )
    return {
        "false-alarms": {
            "format": "theodolite-false-alarms/1",
            "title": f"False alarms on {FOLDER}, promised at most {100 * FALSE_ALARM_RATE:g} %",
            "command": "theodolite reproduce false-alarms",
            "versions": versions(),
            "accuracy": {
                "learnt": head_accuracy(subject.head, subject.fit),
                "unseen": head_accuracy(subject.head, subject.test),
            },
            "samples": {"fit": len(subject.fit), "unseen": len(unseen), "judged": len(new)},
            "rows": rows,
        }
    }


def _features(rows: FeatureSet) -> torch.Tensor:
    return torch.cat([batch for batch, _, _ in rows])


def _flagged(guard: Guard, features: torch.Tensor) -> float:
    """Share of the features that are flagged, in per cent."""
    return round(100 * float(torch.as_tensor(guard.verdicts(features).is_ood).double().mean()), 4)
