"""The promise on real data: of new ID images at most α are flagged, whatever way the guard has come.

CIFAR-10 features of a DenseNet: fitted on images it was trained on, calibrated on a half of the test images,
judged on the other. For one pool of images and a random split, the number flagged of m judged images has,
for n calibration images and k = ⌊α(n + 1)⌋, the beta-binomial distribution with parameters m, k, n + 1 − k.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import betabinom
from torch import Tensor

from realdata import load_head, load_split
from theodolite.detectors.spec import parse_spec
from theodolite.guard import Calibration, Guard

NAME = "cifar10-densenet"
RATES = (0.01, 0.05, 0.1)
SPLITS = 40


@pytest.fixture(
    scope="module", params=["ora", "relative-energy", "msp", "knn?k=20&fraction=0.1", "mds", "ora+react:80"]
)
def judged(request: pytest.FixtureRequest, data_root: Path) -> tuple[Guard, Tensor, Tensor]:
    """A guard, the test images' features, and their scores."""
    features, labels = load_split(data_root, NAME, "id_fit")
    rows, _ = load_split(data_root, NAME, "id_test")
    head = load_head(data_root, NAME)
    detector = parse_spec(request.param).build().fit(features, labels, head=head)
    scores = detector.score(rows)
    return Guard(detector, Calibration(scores)), rows, scores


def halves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[: count // 2], order[count // 2 :]


@pytest.mark.parametrize("rate", RATES)
def test_held_out_images_are_flagged_as_promised(judged: tuple[Guard, Tensor, Tensor], rate: float) -> None:
    _, rows, scores = judged
    alarms = []
    for seed in range(SPLITS):
        known, new = halves(len(rows), seed)
        alarms.append(int(Calibration(scores[known]).is_ood(scores[new], rate).sum()))
    law = expected_alarms(len(known), len(new), rate)
    assert law.cdf(min(alarms)) > 1e-5
    assert law.sf(max(alarms) - 1) > 1e-5
    assert np.mean(alarms) == pytest.approx(law.mean(), abs=4 * law.std() / SPLITS**0.5)


def expected_alarms(known: int, new: int, rate: float) -> Any:
    allowed = math.floor(rate * (known + 1) + 1e-9)
    return betabinom(new, allowed, known + 1 - allowed)


def test_whatever_way_the_guard_has_come(judged: tuple[Guard, Tensor, Tensor], tmp_path: Path) -> None:
    """In a graph, from a state, from a file: the same images are flagged."""
    whole, rows, scores = judged
    known, new = halves(len(rows), 0)
    rate = 0.05
    guard = Guard(whole.detector, Calibration(scores[known]), false_alarm_rate=rate)
    expected = guard.calibration.is_ood(scores[new], rate)
    sizes = ({0: torch.export.Dim("rows")},)
    graph = torch.export.export(guard, (rows[known][:100],), dynamic_shapes=sizes).module()
    restored = Guard(whole.detector, Calibration(torch.arange(200.0)))
    restored.load_state_dict(guard.state_dict())
    guard.save(tmp_path / "guard.safetensors")
    stored = Guard.load(tmp_path / "guard.safetensors")
    for judge in (guard, graph, restored, stored):
        flagged = torch.cat([judge(part)[3] for part in torch.split(rows[new], 1_000)])
        assert torch.equal(flagged, expected)
    low, high = expected_alarms(len(known), len(new), rate).interval(1 - 1e-4)
    assert low <= int(expected.sum()) <= high
