"""A threshold on scores of which many are the lowest flags next to nothing: it is said where it is set."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from command_server import run
from made_guards import WIDTH, clusters, fitted, head
from theodolite import Calibration, Guard, create
from theodolite.core.errors import CalibrationWarning, InputError
from theodolite.guard import EnsembleGuard
from theodolite.guard.by_class import ClassCalibration

SAID = r"100\.0 % of the 200 calibration samples have the lowest score, .* nothing that scores like them"


@pytest.mark.parametrize("name", ["dice", "she", "energy", "ora"])
def test_features_that_say_nothing_are_told(name: str) -> None:
    features, labels = clusters(1_000, 0)
    dead = torch.zeros(200, WIDTH)
    with pytest.warns(CalibrationWarning, match=SAID):
        guard = Guard.fit(features, labels, head=head(), detector=name, calibration=dead)
    assert not bool(guard.verdicts(dead).is_ood.any())


@pytest.mark.parametrize("name", ["energy", "knn", "ora", "she", "openmax"])
def test_ordinary_scores_are_not(name: str) -> None:
    features, labels = clusters(1_000, 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=CalibrationWarning)
        for per_class in (False, 20):
            Guard.fit(
                features,
                labels,
                head=head(),
                detector=name,
                calibration=clusters(600, 1)[0],
                per_class=per_class,
            )


def test_more_than_the_rate_may_flag_and_not_as_many() -> None:
    """α(n + 1) is 5 of 99 scores."""
    for shared, tied in ((1, False), (4, False), (6, True), (99, True)):
        calibration = Calibration(np.r_[np.full(shared, -1.0), np.arange(99 - shared)])
        assert (calibration.doubt(0.05) is not None) == tied
        assert bool(calibration.is_ood(np.array([-1.0]))[0]) != tied
        assert (calibration.doubt(0.5) is not None) == (shared == 99)
    # The lowest of 19 scores is the threshold, whoever shares the others.
    assert Calibration(np.r_[0.0, np.ones(18)]).doubt(0.05) is None
    upper = Calibration(np.r_[np.arange(50.0), np.full(50, 99.0)])
    assert upper.doubt(0.05) is None


def test_one_class_of_them() -> None:
    scores = np.r_[np.arange(100.0), np.zeros(100)]
    predicted = np.repeat([0, 1], 100)
    said = ClassCalibration(scores, predicted, np.array([0, 1])).doubt(0.05)
    assert said is not None
    assert "100 calibration samples of class 1 (in 1 of 2 groups of classes) have the lowest score, 0" in said


def test_guards_that_are_put_together_tell_it_too(tmp_path: Path) -> None:
    member = fitted(2_000)
    with pytest.warns(CalibrationWarning, match="have the lowest score"):
        EnsembleGuard.fit([member, member], [torch.zeros(100, WIDTH)] * 2, combine="sum")
    detector = create("energy").fit(head=head())
    with pytest.warns(CalibrationWarning, match="have the lowest score"):
        guard = Guard(detector, Calibration(np.zeros(100)))
    guard.save(tmp_path / "guard.safetensors")
    shown = " ".join(run("inspect", tmp_path / "guard.safetensors", env={"COLUMNS": "200"}).out.split())
    assert "beware: 100.0 % of the 100 calibration samples have the lowest score, 0" in shown


def test_a_rate_that_is_none_is_still_refused() -> None:
    with pytest.raises(InputError, match="false-alarm rate must lie between 0 and 1"):
        Guard.fit(clusters(500, 0)[0], head=head(), detector="energy", false_alarm_rate=2.0)
