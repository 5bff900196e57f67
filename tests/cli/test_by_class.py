"""`fit --per-class`, and `score --fdr`, on features in files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from command_server import Outcome, run
from made_guards import CLASSES, clusters, head
from theodolite.guard import ClassCalibration, Guard


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("by-class")
    for name, seed, count in (("train", 0, 1_000), ("val", 1, 2_000), ("new", 2, 150)):
        np.save(folder / f"{name}.npy", clusters(count, seed)[0].numpy())
    noise = 8 * torch.randn(20, 16, generator=torch.Generator().manual_seed(1))
    np.save(folder / "strange.npy", noise.numpy())
    save_file({"weight": head().weight, "bias": head().bias}, folder / "head.safetensors")
    return folder


def fit(folder: Path, *more: str) -> Outcome:
    data = ("--data", folder / "train.npy", "--calibration-data", folder / "val.npy")
    options = ("--head", folder / "head.safetensors", "--detector", "ora", "-o", folder / "guard.safetensors")
    return run("fit", *data, *options, *more, env={"COLUMNS": "200"})


def test_a_guard_by_class_from_the_shell(folder: Path) -> None:
    made = fit(folder, "--per-class")
    assert made.code == 0, made.err
    assert "by class is OOD" in made.out
    assert "the smallest class, with probability 0.9" in made.out
    guard = Guard.load(folder / "guard.safetensors")
    assert isinstance(guard.calibration, ClassCalibration)
    assert len(guard.calibration.representatives) == CLASSES
    seen = run("inspect", folder / "guard.safetensors", env={"COLUMNS": "200"})
    low, high = (f(guard.calibration.threshold(0.05, c) for c in range(CLASSES)) for f in (min, max))
    assert f"{low:.6g} to {high:.6g}, by class at a false-alarm rate of 0.05" in seen.out


def test_small_classes_are_named_as_pooled(folder: Path) -> None:
    made = fit(folder, "--per-class", "--class-minimum", "410")
    assert made.code == 0, made.err
    pooled = Guard.load(folder / "guard.safetensors").calibration.pooled
    assert 1 < len(pooled) < CLASSES
    assert f"{len(pooled)} small classes share one" in made.out
    assert fit(folder, "--class-minimum", "410").code == 2


def test_all_samples_are_flagged_together(folder: Path, tmp_path: Path) -> None:
    assert fit(folder).code == 0
    paths = (folder / "new.npy", folder / "strange.npy")
    out = run("score", folder / "guard.safetensors", *paths, "--fdr", "0.1", "-o", tmp_path / "rows.csv")
    assert out.code == 0, out.err
    text = (tmp_path / "rows.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    joined = np.concatenate([np.load(path) for path in paths])
    expected = Guard.load(folder / "guard.safetensors").verdicts(joined, fdr=0.1)
    assert [row["verdict"] == "OOD" for row in rows] == np.asarray(expected.is_ood).tolist()
    assert 10 < int(np.asarray(expected.is_ood).sum()) < 30
    assert "of those flagged, on average at most 10 % are like the calibration data" in " ".join(
        out.out.split()
    )
    both = run("score", folder / "guard.safetensors", *paths, "--fdr", "0.1", "--false-alarm-rate", "0.1")
    assert both.code == 2
    assert "two rules" in both.err
