"""An empty path is a mistake of a script, never the working directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import run
from made_folders import make_folder
from theodolite.core.errors import InputError
from theodolite.data import open_source
from theodolite.features import FeatureStore, extract, open_features
from theodolite.guard import Guard, fit_guard

MODEL = "python:small_models:Tiny?mean=0&size=8"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory full of pictures, which an empty path would take; and a guard."""
    folder, rng = tmp_path_factory.mktemp("here"), np.random.default_rng(0)
    for index in range(60):
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / f"{index}.png")
    np.save(folder.parent / "other.npy", rng.integers(0, 256, (60, 8, 8), dtype=np.uint8))
    store = extract(folder.parent / "other.npy", MODEL, output=folder.parent / "store")
    fit_guard(store.path, detector="energy", false_alarm_rate=0.2).guard.save(folder.parent / "guard.st")
    return folder


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize(
    "words",
    [
        ("extract", "--model", MODEL, "--data", "EMPTY", "-o", "../out"),
        ("fit", "--model", MODEL, "--data", "EMPTY", "-o", "../guard.safetensors"),
        ("fit", "--model", MODEL, "--data", "../other.npy", "--data", "EMPTY", "-o", "../guard.safetensors"),
        ("fit", "--data", "../store", "--calibration-data", "EMPTY", "-o", "../guard.safetensors"),
        ("score", "../guard.st", "--model", MODEL, "EMPTY"),
        ("score", "../guard.st", "--model", MODEL, "0.png", "EMPTY"),
        ("bench", "--model", MODEL, "--id", "EMPTY", "--fit", "../other.npy", "--ood", "far=0.png"),
        ("bench", "--model", MODEL, "--id", "../other.npy", "--fit", "EMPTY", "--ood", "far=0.png"),
        ("bench", "--model", MODEL, "--id", "../other.npy", "--fit", "0.png", "--ood", "far=EMPTY"),
    ],
    ids=lambda words: " ".join(words).replace(MODEL, "M"),
)
def test_every_command_refuses_it(here: Path, words: tuple[str, ...], empty: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in here.parent.iterdir()}
    outcome = run(*(word.replace("EMPTY", empty) for word in words), folder=here)
    assert outcome.code == 2, outcome
    assert "the data path is empty" in outcome.err or "must have the form NAME=DIR" in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.err.strip().count("\n") == 0
    assert {path: path.stat().st_mtime_ns for path in here.parent.iterdir()} == before


def test_features_that_lie_in_the_working_directory_are_not_meant_either(here: Path, tmp_path: Path) -> None:
    folder, store, out = (
        make_folder(tmp_path / "folder"),
        here.parent / "store",
        tmp_path / "probe.safetensors",
    )
    told = "error: the data path is empty"
    for words, place in (
        (("bench", "features:", "--detector", "energy", "-o", tmp_path), folder),
        (("bench", f"features:{folder}", "--model", "features:", "-o", tmp_path), folder),
        (("probe", "", "-o", out), store),
        (("probe", store, "--test", "", "-o", out), store),
    ):
        outcome = run(*words, folder=place)
        assert (outcome.code, outcome.err[: len(told)]) == (2, told), outcome
    assert run("inspect", "", folder=store).code == 2
    with pytest.raises(InputError, match="the data path is empty"):
        FeatureStore("")
    assert run("bench", "features:.", "--detector", "energy", "-o", tmp_path, folder=folder).code == 0


@pytest.mark.parametrize("empty", ["", "  "])
def test_every_function_refuses_it(here: Path, monkeypatch: pytest.MonkeyPatch, empty: str) -> None:
    monkeypatch.chdir(here)
    guard = Guard.load(here.parent / "guard.st")
    for refused in (
        lambda: open_source(empty),
        lambda: extract(empty, MODEL),
        lambda: open_features(empty, MODEL),
        lambda: fit_guard(empty, MODEL),
        lambda: fit_guard(here.parent / "store", calibration=empty),
        lambda: list(guard.score_paths(empty, model=MODEL)),
        lambda: guard.score_folder(empty, model=MODEL),
    ):
        with pytest.raises(InputError, match=r"the data path is empty: name a folder or a file"):
            refused()
    assert len(open_source(".")) == 60, "the working directory has a name"
