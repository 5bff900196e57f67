"""`theodolite train` from the shell: killed and resumed, and its weights in extract, fit and bench."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_server import KILLED, Outcome, run
from made_pictures import SIDE, write_striped

SPEC = "python:small_models:TinyConv?mean=0.5&size=8&std=0.25"
SETTINGS = ("--epochs", "6", "--batch-size", "30", "--augment", "crop", "--padding", "1")
CONTRASTIVE = ("--learning-rate", "0.05", "--projection", "8", "--head-steps", "200")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for seed, name in enumerate(("train", "test")):
        write_striped(folder / f"{name}.npz", 60, seed)
    noise = np.random.default_rng(0).integers(0, 256, (90, SIDE, SIDE), dtype=np.uint8)
    np.savez(folder / "noise.npz", images=noise)
    return folder


def train(data: Path, output: Path, *options: str, **how: object) -> Outcome:
    words = ("--data", data / "train.npz", "--model", SPEC, "-o", output, *SETTINGS, *CONTRASTIVE, *options)
    return run("train", *words, **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("trained") / "supcon"
    return folder, train(data, folder, "--test", str(data / "test.npz"))


def test_a_training_tells_how_far_it_is_and_what_came_of_it(trained: tuple[Path, Outcome]) -> None:
    folder, outcome = trained
    assert outcome.code == 0, outcome.err
    assert "epoch 1 of 6: loss" in outcome.out
    assert "epoch 6 of 6: loss" in outcome.out
    assert "% of the held-out ones" in outcome.out
    assert f"--model '{SPEC}' --weights {folder / 'model.safetensors'}" in outcome.out
    again = train(folder.parents[1] / "none", folder)
    assert again.code == 2, "the data is looked for before anything else"


def test_a_training_that_is_killed_ends_with_the_same_bytes(
    data: Path, trained: tuple[Path, Outcome], tmp_path: Path
) -> None:
    """At the flush of the third state; a file is flushed, then its folder."""
    assert train(data, tmp_path, kill_at_flush=5).code == KILLED
    assert not (tmp_path / "model.safetensors").exists()
    outcome = train(data, tmp_path)
    assert outcome.code == 0, outcome.err
    assert "going on from epoch 3, step 12 of 36" in outcome.out
    assert (tmp_path / "model.safetensors").read_bytes() == (trained[0] / "model.safetensors").read_bytes()


def test_its_weights_go_on_to_features_guards_and_tables(
    data: Path, trained: tuple[Path, Outcome], tmp_path: Path
) -> None:
    model = ("--model", SPEC, "--weights", trained[0] / "model.safetensors")
    stored = run("extract", "--data", data / "test.npz", *model, "-o", tmp_path / "store")
    assert stored.code == 0, stored.err
    fitted = run("fit", "--data", data / "train.npz", *model, "-o", tmp_path / "guard.safetensors")
    assert fitted.code == 0, fitted.err
    sets = ("--id", data / "test.npz", "--fit", data / "train.npz", "--ood", f"noise={data / 'noise.npz'}")
    weights = f"{SPEC}={trained[0] / 'model.safetensors'}"
    place = ("-o", tmp_path / "out", "--cache", tmp_path / "cache", "--detector", "ora")
    bench = run("bench", *sets, "--model", SPEC, "--weights", weights, *place)
    assert bench.code == 0, bench.err
    assert (tmp_path / "out" / "results.json").is_file()


def test_classes_without_a_picture_are_told(tmp_path: Path) -> None:
    """Labels that begin at 1, and a network that does not fit: nothing is trained."""
    np.savez(tmp_path / "train.npz", images=np.zeros((6, SIDE, SIDE), np.uint8), labels=np.arange(6) % 3 + 1)
    outcome = train(tmp_path, tmp_path / "run")
    assert outcome.code == 2
    assert "1 of 4 classes have no picture to learn from: [0]" in " ".join(outcome.err.split())
    assert "the model has 3 classes, but the data has 4" in " ".join(outcome.err.split())


def test_pictures_to_test_on_are_looked_at_before_the_training(data: Path, tmp_path: Path) -> None:
    images = np.zeros((4, SIDE, SIDE), np.uint8)
    np.savez(tmp_path / "bare.npz", images=images)
    np.savez(tmp_path / "other.npz", images=images, labels=np.arange(1, 5))
    for file, said in (("bare", "4 of 4 pictures have no label"), ("other", "have labels up to 4")):
        outcome = train(data, tmp_path / "run", "--test", str(tmp_path / f"{file}.npz"))
        assert outcome.code == 2
        assert said in outcome.err
        assert not (tmp_path / "run").exists()


def test_a_folder_of_another_training_is_refused(data: Path, trained: tuple[Path, Outcome]) -> None:
    other = train(data, trained[0], "--loss", "ce")
    assert other.code == 2
    assert "its settings.loss is 'supcon', asked for is 'ce'" in other.err
