"""What a folder holds beside pictures is said by every command that looks at it, with numbers and names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import Outcome, run

MODEL = ("--model", "python:small_models:Tiny?mean=0&size=8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 pictures a folder; beside those to fit on films, a dangling link and a text; one has no suffix."""
    rng = np.random.default_rng(0)
    for name in ("train", "val", "far"):
        (tmp_path / name).mkdir()
        for index in range(60):
            pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{index}.png")
    train = tmp_path / "train"
    (train / "0.png").rename(train / "0123abcd")
    for name in ("a.mp4", "b.mp4", "notes"):
        (train / name).write_bytes(b"no picture")
    (train / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    return tmp_path


def assert_told(outcome: Outcome, name: str = "train") -> None:
    assert outcome.code == 0, outcome.err
    told = " ".join((outcome.out + outcome.err).split())
    assert f"{name}: 4 entries are left out" in told
    assert "suffix .mp4: 2 (a.mp4, b.mp4)" in told
    assert "link to nothing: 1 (gone.jpg)" in told
    assert "no suffix, and no picture by its content: 1 (notes)" in told
    assert "0123abcd" not in told


def test_every_command_says_it(folder: Path) -> None:
    cache = {"THEODOLITE_CACHE": str(folder / "cache")}
    train, guard = folder / "train", folder / "guard.safetensors"
    extracted = run("extract", *MODEL, "--data", train, "-o", folder / "store")
    assert_told(extracted)
    assert "60 × 16 features" in extracted.out
    limited = run("extract", *MODEL, "--data", train, "--limit", "20", "-o", folder / "limited")
    assert_told(limited)
    data = ("--data", train, "--calibration-data", folder / "val", "--detector", "energy")
    assert_told(run("fit", *MODEL, *data, "-o", guard, env=cache))
    assert_told(run("fit", *MODEL, *data, "-o", guard, env=cache))  # also where nothing is extracted
    assert_told(run("score", guard, *MODEL, train, "-o", folder / "scores.csv"))
    own = ("--id", folder / "val", "--fit", train, "--ood", f"far={folder / 'far'}", "--detector", "energy")
    assert_told(run("bench", *MODEL, *own, "--cache", folder / "c", "-o", folder / "out"))
    silent = run("score", guard, *MODEL, folder / "val", "-o", folder / "scores.csv")
    assert "left out" not in silent.out + silent.err
