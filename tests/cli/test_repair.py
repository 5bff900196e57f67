"""Kept features that are damaged: refused with an advice that works, in every command that keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import Outcome, run
from theodolite.features.manifest import shard_name
from theodolite.features.store import CONTENTS_FILE, HEAD_FILE, FeatureStore

MODEL = "python:small_models:Tiny?mean=0&size=8"
PARTS = (shard_name(0), HEAD_FILE, CONTENTS_FILE)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for part, count in (("fit", 90), ("test", 60), ("far", 30)):
        (folder / part).mkdir()
        for index in range(count):
            pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / part / f"{index}.png")
    return folder


def fit(pictures: Path, out: Path, *more: str) -> Outcome:
    data = ("--data", pictures / "fit", "--calibration-data", pictures / "test")
    file = ("-o", out / "guard.safetensors", "--detector", "knn?k=3")
    return run("fit", "--model", MODEL, *data, *file, *more, env={"THEODOLITE_CACHE": str(out / "cache")})


def bench(pictures: Path, out: Path, *more: str) -> Outcome:
    data = ("--id", pictures / "test", "--fit", pictures / "fit", "--ood", f"far={pictures / 'far'}")
    place = ("--cache", out / "cache", "-o", out / "results")
    return run("bench", "--model", MODEL, *data, *place, "--workers", "0", *more)


def store_of(out: Path, samples: int) -> Path:
    """The store that a command has kept with so many samples."""
    stores = [manifest.parent for manifest in (out / "cache").rglob("manifest.json")]
    (found,) = [store for store in stores if FeatureStore(store).manifest.recipe.samples == samples]
    return found


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def assert_advised(outcome: Outcome, name: str) -> None:
    assert outcome.code == 2, outcome
    assert outcome.err.startswith("error: ")
    assert outcome.err.strip().count("\n") == 0
    assert name in outcome.err
    assert "--repair" in outcome.err


@pytest.mark.parametrize("name", PARTS)
def test_fit_repairs_what_it_kept(pictures: Path, tmp_path: Path, name: str) -> None:
    assert fit(pictures, tmp_path).code == 0
    guard = (tmp_path / "guard.safetensors").read_bytes()
    store = store_of(tmp_path, 90)
    whole = {path.name: path.read_bytes() for path in store.iterdir()}
    damage(store / name)
    assert_advised(fit(pictures, tmp_path), name)
    assert (tmp_path / "guard.safetensors").read_bytes() == guard, "nothing is written on the way to an error"
    repaired = fit(pictures, tmp_path, "--repair")
    assert repaired.code == 0, repaired.err
    assert {path.name: path.read_bytes() for path in store.iterdir()} == whole
    assert (tmp_path / "guard.safetensors").read_bytes() == guard
    assert fit(pictures, tmp_path).code == 0


def test_bench_repairs_what_it_kept(pictures: Path, tmp_path: Path) -> None:
    assert bench(pictures, tmp_path, "--detector", "energy").code == 0
    store = store_of(tmp_path, 60)
    whole = {path.name: path.read_bytes() for path in store.iterdir()}
    # Scores that are not kept yet: kept ones need no features.
    for name, detector in ((shard_name(0), "knn?k=3"), (HEAD_FILE, "maxlogit")):
        damage(store / name)
        assert_advised(bench(pictures, tmp_path, "--detector", detector), name)
        repaired = bench(pictures, tmp_path, "--detector", detector, "--repair")
        assert repaired.code == 0, repaired.err
        assert {path.name: path.read_bytes() for path in store.iterdir()} == whole


def test_verify_of_a_store_finds_what_is_damaged_before_anything_is_fitted(
    pictures: Path, tmp_path: Path
) -> None:
    store, guard = tmp_path / "store", tmp_path / "guard.safetensors"
    data = ("--model", MODEL, "--data", pictures / "fit", "-o", store)
    assert run("extract", *data).code == 0
    fitted = run("fit", "--data", store, "--verify", "-o", guard, "--false-alarm-rate", "0.1")
    assert fitted.code == 0, fitted.err
    guard.unlink()
    damage(store / shard_name(0))
    assert_advised(run("fit", "--data", store, "--verify", "-o", guard), shard_name(0))
    assert not guard.exists()
    wrong = run("fit", "--data", store, "--repair", "-o", guard)
    assert wrong.code == 2
    assert "--repair is for images, but" in wrong.err
    assert run("extract", *data, "--repair").code == 0
    fitted = run("fit", "--data", store, "--verify", "-o", guard, "--false-alarm-rate", "0.1")
    assert fitted.code == 0, fitted.err
