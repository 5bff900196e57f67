"""`theodolite explain`: words, figures and JSON of pictures, features and stores."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import Outcome, run
from theodolite.core.plain import from_plain
from theodolite.guard import Explanation

MODEL = ("--model", "python:small_models:Tiny?mean=0&size=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise to fit on, its features in a store, and a guard by ORA with long class names."""
    folder = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(0)
    (folder / "images").mkdir()
    for index in range(60):
        pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{index:03d}.png")
    (folder / "names.txt").write_text(
        "short\na class with a name that is far too long for any panel of any figure\n$x^\n"
    )
    env = {"THEODOLITE_CACHE": str(folder / "cache")}
    made = run("extract", *MODEL, "--data", folder / "images", "-o", folder / "store", env=env)
    assert made.code == 0, made.err
    options = ("--calibration-share", "0.5", "--class-names", folder / "names.txt")
    command = ("fit", *MODEL, "--data", folder / "images", "-o", folder / "guard.safetensors", *options)
    made = run(*command, "--detector", "ora", env=env)
    assert made.code == 0, made.err
    return folder


def explain(folder: Path, *arguments: str | Path) -> Outcome:
    return run("explain", *MODEL, folder / "guard.safetensors", *arguments, env={"COLUMNS": "200"})


def read(path: Path) -> list[Explanation]:
    return from_plain(list[Explanation], json.loads(path.read_text(encoding="utf-8")))


def test_without_a_file_it_is_told_in_words(folder: Path) -> None:
    out = explain(folder, folder / "images" / "003.png")
    assert out.code == 0, out.err
    for word in (
        "003.png: ",
        "familiar pictures",
        "ORA ",
        "threshold",
        "nearest: ",
        "furthest: ",
        "the largest angle",
    ):
        assert word in out.out
    assert "ID samples (the calibration scores, which are angles) nine of ten lie between" in out.out
    assert "give ID features" in out.out


def test_figures_are_written_one_a_sample(folder: Path, tmp_path: Path) -> None:
    one = explain(folder, folder / "images" / "003.png", "-o", tmp_path / "why.png")
    assert one.code == 0, one.err
    several = explain(
        folder, folder / "images" / "003.png", folder / "images" / "004.png", "-o", tmp_path / "both.svg"
    )
    assert several.code == 0, several.err
    assert {path.name for path in tmp_path.iterdir()} == {"why.png", "both-1.svg", "both-2.svg"}
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.width > 1_000
    assert "both-2.svg" in several.out


def test_a_store_and_its_rows_show_their_pictures(folder: Path, tmp_path: Path) -> None:
    out = explain(folder, folder / "store", "--row", "7", "--row", "2", "-o", tmp_path / "rows.json")
    assert out.code == 0, out.err
    told = read(tmp_path / "rows.json")
    assert [one.name for one in told] == ["007.png", "002.png"]
    assert [one.picture for one in told] == [str(folder / "images" / one.name) for one in told]


def test_the_picture_itself_is_the_nearest_of_its_own_store(folder: Path, tmp_path: Path) -> None:
    out = explain(
        folder,
        folder / "images" / "011.png",
        "--bank",
        folder / "store",
        "--neighbours",
        "3",
        "-o",
        tmp_path / "a.json",
    )
    assert out.code == 0, out.err
    (told,) = read(tmp_path / "a.json")
    assert told.neighbours is not None
    nearest = told.neighbours.samples[0]
    assert (nearest.name, nearest.picture) == ("011.png", str(folder / "images" / "011.png"))
    assert nearest.value == pytest.approx(0, abs=1e-6)
    assert len(told.neighbours.samples) == 3
    drawn = explain(
        folder, folder / "images" / "011.png", "--bank", folder / "store", "-o", tmp_path / "a.png"
    )
    assert drawn.code == 0, drawn.err


def test_features_in_a_file_by_row_and_a_row_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float32)
    rows[3, 0] = np.nan
    np.save(tmp_path / "features.npy", rows)
    out = explain(folder, tmp_path / "features.npy", "--row", "3")
    assert out.code == 0, out.err
    assert "features.npy#3: unscorable" in out.out
    assert "NaN" in out.out
    out = explain(folder, tmp_path / "features.npy", "--row", "39", "--row", "0", "-o", tmp_path / "two.png")
    assert out.code == 0, out.err
    assert (tmp_path / "two-2.png").is_file()
    missing = explain(folder, tmp_path / "features.npy", "--row", "40")
    assert missing.code == 2
    assert "row 40" in missing.err


def test_more_than_a_person_looks_at_is_asked_for_by_number(folder: Path, tmp_path: Path) -> None:
    refused = explain(folder, folder / "images", "-o", tmp_path / "why.png")
    assert refused.code == 2
    assert "--limit" in refused.err
    assert list(tmp_path.iterdir()) == []
    asked = explain(folder, folder / "images", "--limit", "30", "-o", tmp_path / "why.json")
    assert asked.code == 0, asked.err
    assert len(read(tmp_path / "why.json")) == 30


def test_what_cannot_be_is_said_before_any_work(folder: Path, tmp_path: Path) -> None:
    picture = folder / "images" / "003.png"
    for wrong, word in (
        ((picture, "-o", tmp_path / "why.gif"), ".png, .svg or .json"),
        ((picture, picture, "--row", "0"), "one path"),
        ((picture, "--bank", tmp_path), "neither a feature store"),
        ((tmp_path / "gone.png",), "does not exist"),
    ):
        refused = explain(folder, *wrong)
        assert refused.code == 2
        assert word in refused.err
        assert refused.out == ""
    assert list(tmp_path.iterdir()) == []


def test_odd_names_are_drawn_and_written(folder: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9\x1b[31m $x^ name.png")
    shutil.copy(folder / "images" / "000.png", odd)
    for suffix in ("png", "json"):
        out = explain(folder, odd, "-o", tmp_path / f"why.{suffix}")
        assert out.code == 0, out.err
    (told,) = read(tmp_path / "why.json")
    assert told.name == str(odd)
    words = explain(folder, odd)
    assert words.code == 0
    assert "\x1b[31m" not in words.out
