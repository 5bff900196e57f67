"""`theodolite collect` and `theodolite fit PART…`: an array of jobs, and what they are told."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from command_server import Outcome, run
from labelled import labels_of
from made_guards import clusters, head
from theodolite import ORA, Reference
from theodolite.features import save_probe

MODEL = "python:small_models:Tiny?mean=0&size=8"
HEAD = ("--head", "head.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features, pictures, and the parts of an array of three jobs."""
    folder = tmp_path_factory.mktemp("array")
    for name, seed, count in (("train", 0, 900), ("val", 1, 300), ("new", 2, 300)):
        features, labels = clusters(count, seed, spread=1 + 2 * (name == "new"))
        np.savez(folder / f"{name}.npz", features=features, labels=labels)
    save_probe(head(), folder / "head.safetensors")
    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8), dtype=np.uint8)
    np.savez(folder / "pictures.npz", images=images, labels=labels_of(images))
    for number in (1, 2, 3):
        done = job(folder, "--part", f"{number}/3", "-o", f"part-{number}.safetensors")
        assert done.code == 0, done.err
        assert "ORA: " in done.out
        assert "held out to calibrate on" in done.out
    return folder


def said(folder: Path, *words: str | Path) -> Outcome:
    env = {"THEODOLITE_CACHE": str(folder / "cache"), "COLUMNS": "1000"}
    return run(*words, env=env, folder=folder)


def job(folder: Path, *words: str, data: str = "train.npz", detector: str = "ora") -> Outcome:
    return said(folder, "collect", "--data", data, "--detector", detector, *HEAD, *words)


def refused(outcome: Outcome, *expected: str) -> None:
    assert outcome.code != 0
    assert "Traceback" not in outcome.err
    for text in expected:
        assert text in outcome.err, outcome.err


def scores(folder: Path, guard: str) -> list[dict[str, str]]:
    done = said(folder, "score", guard, "new.npz", "-o", f"{guard}.csv")
    assert done.code == 0, done.err
    with (folder / f"{guard}.csv").open() as file:
        return list(csv.DictReader(file))


def test_an_array_of_jobs_gives_the_guard_of_one(folder: Path) -> None:
    whole = said(folder, "fit", "--data", "train.npz", "--detector", "ora", *HEAD, "-o", "whole.safetensors")
    parts = [f"part-{number}.safetensors" for number in (3, 1, 2)]
    merged = said(folder, "fit", *parts, "-o", "merged.safetensors")
    assert whole.code == merged.code == 0, merged.err
    assert merged.out.replace("merged.", "whole.").splitlines()[0] == whole.out.splitlines()[0]
    one, other = scores(folder, "merged.safetensors"), scores(folder, "whole.safetensors")
    assert [row["verdict"] for row in one] == [row["verdict"] for row in other]
    assert len({row["verdict"] for row in one}) == 2, "some are flagged, some are not"
    np.testing.assert_allclose(
        [float(row["score"]) for row in one], [float(row["score"]) for row in other], rtol=1e-5
    )


def test_missing_and_doubled_parts(folder: Path) -> None:
    two = ("part-1.safetensors", "part-3.safetensors")
    refused(
        said(folder, "fit", *two, "-o", "x.safetensors"),
        "1 of 3 parts of train.npz are not there (2)",
        "--incomplete",
    )
    assert not (folder / "x.safetensors").exists()
    done = said(folder, "fit", *two, "-o", "y.safetensors", "--incomplete")
    assert done.code == 0
    assert "note: 1 of 3 parts of train.npz are not there (2)" in done.err
    again = ("part-1.safetensors", "part-2.safetensors", "part-3.safetensors", "part-1.safetensors")
    refused(said(folder, "fit", *again, "-o", "x.safetensors"), "part 1/3 of train.npz is there twice")


def test_two_rounds_for_a_shaping_that_learns(folder: Path) -> None:
    for number in (1, 2):
        look = job(
            folder, "--part", f"{number}/2", "-o", f"look-{number}.safetensors", detector="ora+react:80"
        )
        assert look.code == 0, look.err
        assert "note: this part holds what the shaping learns from" in look.out + look.err
    looks = ("look-1.safetensors", "look-2.safetensors")
    refused(said(folder, "fit", *looks, "-o", "x.safetensors"), "--first-look 'look-*.safetensors'")
    shaped = []
    for number in (1, 2):
        shaped.append(f"shaped-{number}.safetensors")
        more = ("--first-look", "look-*.safetensors", "--part", f"{number}/2", "-o", shaped[-1])
        done = job(folder, *more, detector="ora+react:80")
        assert done.code == 0, done.err
    merged = said(folder, "fit", *shaped, "-o", "shaped.safetensors")
    words = ("--data", "train.npz", "--detector", "ora+react:80", *HEAD, "-o", "shaped-whole.safetensors")
    whole = said(folder, "fit", *words)
    assert merged.out.split("Guard in")[0] == whole.out.split("Guard in")[0]
    refused(
        job(folder, "--first-look", "none-*", "-o", "x.safetensors", detector="ora+react:80"),
        "no file matches it",
    )


def test_pictures_and_calibration_data_of_their_own(folder: Path) -> None:
    for number in (1, 2):
        words = ("--model", MODEL, "--data", "pictures.npz", "--part", f"{number}/2")
        done = said(
            folder, "collect", *words, "--calibration-share", "0", "-o", f"picture-{number}.safetensors"
        )
        assert done.code == 0, done.err
    parts = ("picture-1.safetensors", "picture-2.safetensors")
    refused(said(folder, "fit", *parts, "-o", "x.safetensors"), "hold no rows out", "--calibration-data")
    own = ("--calibration-data", "pictures.npz", "--model", MODEL)
    refused(said(folder, "fit", *parts, *own, "-o", "x.safetensors"), "200 of 200 samples to calibrate on")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("part-1.safetensors", "--data", "train.npz"), "--data is for data, but parts are given"),
        (("part-1.safetensors", "--model", "timm:resnet18"), "--model is for data"),
        (("part-1.safetensors", "--calibration-share", "0.5"), "--calibration-share is for data"),
        (("part-1.safetensors", *HEAD), "--head is for data"),
        (("--data", "train.npz", "--incomplete"), "--incomplete is for parts"),
        ((), "there is nothing to fit on"),
        (("head.safetensors",), "expected theodolite-part/1"),
        (("nowhere.safetensors",), "no such file: nowhere.safetensors"),
    ],
)
def test_options_that_do_not_go_together(folder: Path, words: tuple[str, ...], expected: str) -> None:
    refused(said(folder, "fit", *words, "-o", "x.safetensors"), expected)


def test_a_part_and_a_reference_are_inspected(folder: Path) -> None:
    told = said(folder, "inspect", "part-2.safetensors")
    assert told.code == 0, told.err
    for text in ("part 2/3 of train.npz", "each is known by its id", "mean of plain features of width 16"):
        assert text in told.out, told.out
    features, labels = clusters(200, 0)
    reference = ORA().collect(features, labels, head=head())
    reference.save(folder / "reference.safetensors")
    told = said(folder, "inspect", "reference.safetensors")
    assert "not known: they came without ids" in told.out, told.out + told.err
    assert Reference.load(folder / "reference.safetensors").count == 200
