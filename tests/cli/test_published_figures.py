"""From idx files to published figures, through the command line alone: the OE authors' MNIST network, MSP."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from command_server import run
from theodolite.core.arrays import FloatArray
from theodolite.evaluation.metrics import evaluate

IMAGES = "t10k-images-idx3-ubyte.gz"


@pytest.fixture(scope="module")
def guard(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("oe")
    weights = data_root / "oe-mnist" / "baseline.safetensors"
    digits = data_root / "mnist" / IMAGES
    extracted = run(
        "extract", "--model", "oe:mnist", "--weights", weights, "--data", digits, "-o", folder / "id"
    )
    assert extracted.code == 0, extracted.err
    fitted = run("fit", "--data", folder / "id", "--detector", "msp", "-o", folder / "guard.safetensors")
    assert fitted.code == 0, fitted.err
    scored = run("score", folder / "guard.safetensors", folder / "id", "-o", folder / "id.csv")
    assert scored.code == 0, scored.err
    return folder / "guard.safetensors"


def scores_of(path: Path) -> FloatArray:
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return np.array([float(row["score"]) for row in csv.DictReader(file)])
        return np.array([json.loads(line)["score"] for line in file])


def test_the_network_errs_on_094_per_cent(guard: Path, data_root: Path) -> None:
    from theodolite.data import open_source
    from theodolite.features.store import FeatureStore

    store = FeatureStore(guard.with_name("id"))
    source = open_source(data_root / "mnist" / IMAGES)
    with guard.with_name("id.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == list(store.names())
    wrong = [int(row["predicted"]) != source[index].label for index, row in enumerate(rows)]
    assert 100 * np.mean(wrong) == pytest.approx(0.94, abs=0.005)


@pytest.mark.parametrize(
    ("name", "fpr95", "auroc", "suffix"),
    [("fashion-mnist", 2.96, 99.30, "csv"), ("notmnist", 16.76, 96.13, "jsonl")],
)
def test_detection_is_as_published(
    guard: Path, data_root: Path, tmp_path: Path, name: str, fpr95: float, auroc: float, suffix: str
) -> None:
    """OOD as the positive class, all 10,000 samples; the guard finds its checkpoint by itself."""
    outcome = run("score", guard, data_root / name / IMAGES, "-o", tmp_path / f"ood.{suffix}")
    assert outcome.code == 0, outcome.err
    assert "of 10,000 flagged as OOD" in outcome.out
    cell = evaluate(scores_of(guard.with_name("id.csv")), scores_of(tmp_path / f"ood.{suffix}"))
    assert 100 * cell["fpr95_ood_positive"] == pytest.approx(fpr95, abs=0.006)
    assert 100 * cell["auroc"] == pytest.approx(auroc, abs=0.006)
