"""Files written by version 0.1.0: they open, say the same, and teach the same to what is fitted now.

`expected.json` has features and what 0.1.0 said of them; `guard-*.csv` is what its `theodolite score` wrote
about the store.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import theodolite
from command_server import run
from theodolite import FeatureStore
from theodolite.core.files import read_tensors
from theodolite.guard import Guard
from theodolite.guard.storage import FORMAT

FOLDER = Path(__file__).parents[1] / "fixtures" / "0.1.0"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
DETECTORS, GUARDS = sorted(EXPECTED["detectors"]), sorted(EXPECTED["guards"])
# Scores of one CPU and another differ in the last digits.
RELATIVE = 1e-6


def inputs() -> Tensor:
    return torch.tensor(EXPECTED["inputs"])


def store() -> FeatureStore:
    return FeatureStore(FOLDER / "store")


def guard_file(name: str) -> Path:
    return FOLDER / f"guard-{name}.safetensors"


def test_every_file_is_looked_at() -> None:
    known = {f"{name}.safetensors" for name in DETECTORS} | {guard_file(name).name for name in GUARDS}
    assert {path.name for path in FOLDER.glob("*.safetensors")} == known
    assert len(DETECTORS) == 21
    assert {path.stem for path in FOLDER.glob("*.csv")} == {guard_file(name).stem for name in GUARDS}


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_gives_its_old_scores(name: str) -> None:
    loaded = theodolite.load(FOLDER / f"{name}.safetensors")
    assert loaded.record.name == name
    expected = EXPECTED["detectors"][name]
    np.testing.assert_allclose(loaded.score(inputs()).double(), expected, rtol=RELATIVE)


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_learns_the_same_from_the_old_store(name: str) -> None:
    features = store()
    fitted = theodolite.create(name).fit(features, head=features.head)
    # Whitening and neighbours divide by small numbers: a few more of the last digits.
    expected = EXPECTED["detectors"][name]
    np.testing.assert_allclose(fitted.score(inputs()).double(), expected, rtol=100 * RELATIVE)


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_gives_its_old_verdicts(name: str) -> None:
    guard, expected = Guard.load(guard_file(name)), EXPECTED["guards"][name]
    verdicts = guard.verdicts(inputs())
    assert torch.as_tensor(verdicts.predicted).tolist() == expected["predicted"]
    assert torch.as_tensor(verdicts.is_ood).tolist() == expected["is_ood"]
    np.testing.assert_allclose(torch.as_tensor(verdicts.score).double(), expected["score"], rtol=RELATIVE)
    np.testing.assert_allclose(torch.as_tensor(verdicts.p_value), expected["p_value"], rtol=RELATIVE)
    assert guard.class_names == ("a", "b", "c")
    assert guard.provenance is not None
    assert guard.provenance.weights == store().manifest.recipe.weights


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_is_written_again_as_it_was(name: str, tmp_path: Path) -> None:
    again = tmp_path / "again.safetensors"
    Guard.load(guard_file(name)).save(again)
    (old, old_text), (new, new_text) = (read_tensors(path, FORMAT) for path in (guard_file(name), again))
    assert {**new_text, "theodolite": "0.1.0"} == old_text
    assert old.keys() == new.keys()
    assert all(torch.equal(old[part], new[part]) for part in old)


def test_the_store_is_whole() -> None:
    features = store()
    assert features.damaged() == []
    assert (len(features), features.width, features.shards) == (150, 16, 3)
    assert features.labelled
    assert list(features.names())[:2] == ["pictures.npz#0", "pictures.npz#1"]


@pytest.mark.parametrize("name", GUARDS)
def test_the_command_scores_the_old_store_as_before(name: str, tmp_path: Path) -> None:
    done = run("score", guard_file(name), FOLDER / "store", "-o", tmp_path / "scores.csv")
    assert done.code == 0, done.err
    before, now = (
        list(csv.DictReader(path.read_text().splitlines()))
        for path in (FOLDER / f"guard-{name}.csv", tmp_path / "scores.csv")
    )
    assert len(now) == 150
    for column in ("path", "predicted", "name"):
        assert [row[column] for row in now] == [row[column] for row in before]
    old, new = (np.array([float(row["score"]) for row in rows]) for rows in (before, now))
    np.testing.assert_allclose(new, old, rtol=RELATIVE)
    # Calibration samples are among the rows: rounding may put one of them on either side of its own score.
    calibration = Guard.load(guard_file(name)).calibration
    clear = ~np.isclose(old, calibration.threshold(0.05), rtol=RELATIVE)
    assert clear.sum() >= 149
    same = np.array([a["verdict"] == b["verdict"] for a, b in zip(before, now, strict=True)])
    assert same[clear].all()
    p_values = [[float(row["p_value"]) for row in rows] for rows in (before, now)]
    np.testing.assert_allclose(p_values[1], p_values[0], atol=1 / len(calibration))
