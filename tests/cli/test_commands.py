"""The commands on small data: what they write, what they say, and that errors are one paragraph."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import Outcome, run
from labelled import labels_of
from theodolite.features.store import FeatureStore
from theodolite.guard import Guard

MODEL = ("--model", "python:small_models:Tiny?mean=0&size=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in three class folders, an archive of images, and a guard fitted on the folders."""
    folder = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (240, 8, 8), dtype=np.uint8)
    for index, label in enumerate(labels_of(pictures)):
        place = folder / "images" / "abc"[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pictures[index]).save(place / f"{index}.png")
    np.savez(folder / "more.npz", images=rng.integers(0, 256, (50, 8, 8), dtype=np.uint8))
    cache = {"THEODOLITE_CACHE": str(folder / "cache")}
    fitted = run("fit", *MODEL, "--data", folder / "images", "-o", folder / "guard.safetensors", env=cache)
    assert fitted.code == 0, fitted.err
    assert len(list((folder / "cache").iterdir())) == 1
    return folder


def assert_refused(outcome: Outcome, *words: str) -> None:
    """Exit code 2, one paragraph, no traceback, and the words that help."""
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.strip().count("\n") == 0
    for word in words:
        assert word in outcome.err


def test_scores_are_the_same_in_every_kind_of_file(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'theodolite[parquet]'")
    for suffix in ("csv", "jsonl", "parquet"):
        out = run(
            "score", *MODEL, folder / "guard.safetensors", folder / "images", "-o", tmp_path / f"s.{suffix}"
        )
        assert out.code == 0, out.err
    with (tmp_path / "s.csv").open(newline="") as file:
        from_csv = list(csv.DictReader(file))
    from_json = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    from_parquet = parquet.read_table(tmp_path / "s.parquet").to_pylist()
    assert len(from_csv) == 240
    assert from_json == from_parquet
    assert [{name: str(value) for name, value in row.items()} for row in from_json] == from_csv
    assert Path(from_json[0]["path"]).is_file()
    flagged = sum(row["verdict"] == "OOD" for row in from_json)
    assert f"{flagged} of 240 flagged as OOD" in out.out
    assert all((row["verdict"] == "OOD") == (row["p_value"] <= 0.05) for row in from_json)


def test_a_store_and_its_images_get_the_same_scores(folder: Path, tmp_path: Path) -> None:
    assert run("extract", *MODEL, "--data", folder / "images", "-o", tmp_path / "store").code == 0
    for name, path in (("store", tmp_path / "store"), ("images", folder / "images")):
        assert (
            run("score", *MODEL, folder / "guard.safetensors", path, "-o", tmp_path / f"{name}.jsonl").code
            == 0
        )
    columns = [
        [json.loads(line)["score"] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("store", "images")
    ]
    np.testing.assert_allclose(columns[0], columns[1], rtol=1e-5)


def test_single_images_several_paths_and_a_limit(folder: Path) -> None:
    image = next((folder / "images" / "a").iterdir())
    out = run("score", *MODEL, folder / "guard.safetensors", image, folder / "more.npz", "--limit", "10")
    assert out.code == 0, out.err
    assert "of 11 flagged" in out.out
    strict = run("score", *MODEL, folder / "guard.safetensors", image, "--false-alarm-rate", "0.2")
    assert "about 20 % or fewer would be" in strict.out


def test_the_guard_carries_everything(folder: Path) -> None:
    guard = Guard.load(folder / "guard.safetensors")
    assert guard.provenance is not None
    assert guard.provenance.model == MODEL[1]
    assert guard.provenance.layer == "fc"
    (store,) = (FeatureStore(path) for path in (folder / "cache").iterdir())
    assert guard.provenance.weights == store.manifest.recipe.weights
    assert len(guard.calibration) == pytest.approx(48, abs=20)
    shown = run("inspect", folder / "guard.safetensors")
    assert shown.code == 0
    for word in ("guard", "Relative Energy", "held-out scores", MODEL[1], guard.provenance.weights):
        assert word in shown.out


def test_calibration_data_of_its_own(folder: Path, tmp_path: Path) -> None:
    cache = {"THEODOLITE_CACHE": str(tmp_path / "cache")}
    guard = tmp_path / "guard.safetensors"
    data = ("--data", folder / "images", "--calibration-data", folder / "more.npz")
    out = run("fit", *MODEL, *data, "--detector", "energy", "-o", guard, env=cache)
    assert out.code == 0, out.err
    assert "fitted on 240 samples, calibrated on 50" in out.out


def test_shaping_and_the_note_on_nudged_inputs(folder: Path, tmp_path: Path) -> None:
    cache, guard = {"THEODOLITE_CACHE": str(folder / "cache")}, tmp_path / "guard.safetensors"
    fit = ("fit", *MODEL, "--data", folder / "images", "-o", guard)
    assert run(*fit, "--shaping", "react:80", env=cache).code == 0
    assert "shaping='react:80'" in run("inspect", guard).out.replace("\n", " ").replace("  ", "")
    assert run("score", *MODEL, guard, folder / "more.npz").code == 0
    assert_refused(run(*fit, "--shaping", "foo:3", env=cache), "react, ash-s")
    assert "nudges every input" in run(*fit, "--detector", "odin", env=cache).out
    assert run("score", *MODEL, guard, folder / "more.npz").code == 0
    store = tmp_path / "store"
    assert run("extract", *MODEL, "--data", folder / "images", "-o", store, env=cache).code == 0
    assert_refused(run("score", guard, store), "of inputs as they are, but the guard was calibrated on")
    said = run("fit", "--data", store, "--detector", "odin", "-o", guard).out
    assert "ODIN (ε=0) fitted" in said
    assert "its nudge is left out" in said


def test_inspect_a_store_and_a_detector(folder: Path, tmp_path: Path) -> None:
    limited = ("--data", folder / "images", "--dtype", "float16", "--limit", "100")
    assert run("extract", *MODEL, *limited, "-o", tmp_path / "store").code == 0
    shown = run("inspect", tmp_path / "store", "--verify")
    for word in ("complete, every checksum is right", "100 × 16, float16", "every sample has one"):
        assert word in shown.out
    Guard.load(folder / "guard.safetensors").detector.save(tmp_path / "ora.safetensors")
    assert "fitted detector" in run("inspect", tmp_path / "ora.safetensors").out


def test_unreadable_images_are_named_or_skipped_and_listed(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for index in range(60):
        Image.effect_noise((8, 8), 40).save(images / f"{index:02d}.png")
    Image.effect_noise((64, 64), 40).save(images / "whole.jpg")
    (images / "cut.jpg").write_bytes((images / "whole.jpg").read_bytes()[:400])
    (images / "empty.png").touch()
    command = ("extract", *MODEL, "--data", images, "-o", tmp_path / "store")
    for workers in ("0", "1"):
        assert_refused(run(*command, "--workers", workers), "cut.jpg", "--skip-unreadable")
    assert run(*command, "--skip-unreadable").code == 0
    store = FeatureStore(tmp_path / "store")
    assert [Path(name).name for name in store.skipped] == ["cut.jpg", "empty.png"]
    assert len(store) == 61
    assert "2 left out" in run("inspect", tmp_path / "store").out
    guard = tmp_path / "guard.safetensors"
    assert run("fit", "--data", tmp_path / "store", "-o", guard, "--calibration-share", "0.7").code == 0
    assert_refused(run("score", *MODEL, guard, images, "-o", tmp_path / "scores.csv"), "cut.jpg")
    assert not list(tmp_path.glob("scores.csv*"))
    for suffix in ("csv", "jsonl", *(("parquet",) if find_spec("pyarrow") else ())):
        kept = tmp_path / f"kept.{suffix}"
        assert run("score", *MODEL, guard, images, "--skip-unreadable", "-o", kept).code == 0
    rows = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    unread = [row for row in rows if row["verdict"] == "unreadable"]
    assert len(rows) == 63
    assert sorted(Path(row["path"]).name for row in unread) == ["cut.jpg", "empty.png"]
    assert all(row["score"] is None for row in unread)
    out = run("score", *MODEL, guard, images, "--skip-unreadable")
    assert "2 unreadable, without verdict" in out.out


def test_malformed_input_is_one_paragraph(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "flat.npz", images=np.zeros((4, 7), np.uint8))
    np.savez(tmp_path / "far.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.full(40, 7))
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    (tmp_path / "text").write_text("no weights")
    guard, images, out = folder / "guard.safetensors", folder / "images", tmp_path / "out.safetensors"
    cache = {"THEODOLITE_CACHE": str(tmp_path / "cache")}
    fit = ("fit", *MODEL, "-o", out)
    cases: list[tuple[tuple[str | Path, ...], tuple[str, ...]]] = [
        ((*fit, "--data", tmp_path / "flat.npz"), ("shape", "(4, 7)")),
        ((*fit, "--data", tmp_path / "far.npz"), ("labels must lie in 0..2",)),
        ((*fit, "--data", tmp_path / "nowhere"), ("does not exist",)),
        ((*fit, "--data", images, "--detector", "orra"), ("did you mean 'ora'",)),
        ((*fit, "--data", images, "--layer", "body.0"), ("body.0",)),
        ((*fit, "--data", images, "--weights", tmp_path / "text"), ("text",)),
        ((*fit, "--data", images, "--device", "tpu"), ("device must be one of",)),
        ((*fit, "--data", images, "--limit", "12"), ("calibration scores cannot support",)),
        ((*fit, "--data", images, "--calibration-share", "2"), ("share must lie in (0, 1)",)),
        (("fit", "--data", images, "-o", out), ("--model",)),
        (("fit", "--data", images, "-o", out, "--model", "python:small_models:NoHead"), ("linear",)),
        (("fit", "--data", images, "-o", out, "--model", "python:small_models:TwoHeads?size=8"), ("head",)),
        (("fit", "--data", images, "-o", out, "--model", "resnet"), ("resnet",)),
        (("extract", *MODEL, "--data", images, "-o", tmp_path / "s", "--dtype", "int8"), ("float16",)),
        (("extract", *MODEL, "--data", images, "-o", guard), ("cannot create",)),
        (("score", tmp_path / "junk.safetensors", images), ("not a readable safetensors file",)),
        (("score", "imagenet-lite9", images), ("Ready-made guards: imagenet-lite0",)),
        (("score", *MODEL, guard, images, "-o", tmp_path / "scores.txt"), (".csv, .jsonl or .parquet",)),
        (("score", *MODEL, guard, images, "-o", tmp_path / "no" / "s.csv"), ("does not exist: create it",)),
        (("score", *MODEL, guard, tmp_path / "flat.npz"), ("shape",)),
        (("score", *MODEL, guard, images, "--false-alarm-rate", "2"), ("must lie between 0 and 1",)),
        (("inspect", tmp_path), ("not a feature store",)),
        (("inspect", tmp_path / "nothing"), ("no such file",)),
    ]
    for arguments, words in cases:
        assert_refused(run(*arguments, env=cache), *words)
    assert not out.exists()


@pytest.mark.parametrize(
    "words", [("extract", *MODEL, "-o", "x", "--data"), ("probe", "-o", "x"), ("inspect",)]
)
def test_what_the_system_says_of_a_path_is_one_paragraph(words: tuple[str, ...]) -> None:
    outcome = run(*words, "9" * 5_000)
    assert_refused(outcome, "999… (5,0", "File name too long")
    assert len(outcome.err) < 500


@pytest.mark.parametrize("words", [("demo",), ("probe", "x"), ("bench",), ("reproduce",)])
@pytest.mark.parametrize("seed", ["-1", "9" * 30, "nan"])
def test_a_seed_is_a_whole_number_that_generators_take(words: tuple[str, ...], seed: str) -> None:
    outcome = run(*words, "--seed", seed)
    assert outcome.code == 2
    assert "Invalid value for '--seed'" in outcome.err


def test_other_weights_than_the_guards_are_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from small_models import Tiny

    changed = {name: tensor + 1 for name, tensor in Tiny().state_dict().items()}
    save_file(changed, tmp_path / "other.safetensors")
    weights = ("--weights", tmp_path / "other.safetensors")
    refused = run("score", *MODEL, folder / "guard.safetensors", folder / "images", *weights)
    assert_refused(refused, "are not those the guard was fitted on")
    assert run("extract", *MODEL, *weights, "--data", folder / "images", "-o", tmp_path / "s").code == 0
    assert_refused(run("score", *MODEL, folder / "guard.safetensors", tmp_path / "s"), "holds features of")


def test_a_forgotten_checkpoint_is_asked_for(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    from small_models import Tiny

    weights, guard = tmp_path / "weights.safetensors", tmp_path / "guard.safetensors"
    save_file(Tiny().state_dict(), weights)
    cache = {"THEODOLITE_CACHE": str(tmp_path / "cache")}
    fitted = run("fit", *MODEL, "--weights", weights, "--data", folder / "images", "-o", guard, env=cache)
    assert fitted.code == 0, fitted.err
    assert run("score", *MODEL, guard, folder / "images").code == 0
    weights.rename(tmp_path / "moved.safetensors")
    assert_refused(run("score", *MODEL, guard, folder / "images"), "is gone", "--weights")
    moved = ("--weights", tmp_path / "moved.safetensors")
    assert run("score", *MODEL, guard, folder / "images", *moved).code == 0


def test_python_m_theodolite(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "theodolite", "inspect", str(tmp_path)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("error: ")


def test_parts_of_the_data_from_several_machines(folder: Path, tmp_path: Path) -> None:
    """Three extractions of a third each, then one fit: the guard of the whole data."""
    for part in ("1/3", "2/3", "3/3"):
        place = tmp_path / part[0]
        made = run("extract", *MODEL, "--data", folder / "images", "--part", part, "-o", place)
        assert made.code == 0, made.err
    assert [len(FeatureStore(tmp_path / part)) for part in "123"] == [80, 80, 80]
    parts = [value for part in "123" for value in ("--data", tmp_path / part)]
    joined = run("fit", *parts, "-o", tmp_path / "guard.safetensors")
    assert joined.code == 0, joined.err
    whole, parted = (Guard.load(path / "guard.safetensors") for path in (folder, tmp_path))
    np.testing.assert_allclose(parted.calibration.scores, whole.calibration.scores, rtol=1e-5)
    assert_refused(run("extract", *MODEL, "--data", folder / "images", "--part", "4/3", "-o", tmp_path / "x"))
    other = run("extract", *MODEL, "--data", folder / "images" / "a", "-o", tmp_path / "a")
    assert other.code == 0, other.err
    (tmp_path / "two" / "b").mkdir(parents=True)
    for name in ("b", "c"):
        shutil.copytree(folder / "images" / name, tmp_path / "two" / name, dirs_exist_ok=True)
    assert run("extract", *MODEL, "--data", tmp_path / "two", "-o", tmp_path / "x").code == 0
    mixed = run("fit", "--data", tmp_path / "1", "--data", tmp_path / "x", "-o", tmp_path / "g.safetensors")
    assert_refused(mixed, "number different classes")
    twice = run("fit", "--data", tmp_path / "1", "--data", tmp_path / "1", "-o", tmp_path / "g.safetensors")
    assert_refused(twice, "named twice")


def test_a_detector_with_options_names_and_advice(folder: Path, tmp_path: Path) -> None:
    guard, cache = tmp_path / "guard.safetensors", {"THEODOLITE_CACHE": str(folder / "cache")}
    fit = ("fit", *MODEL, "--data", folder / "images", "-o", guard)
    out = run(*fit, "--detector", "knn?k=7+react:90", "--class-names", "cat,dog,cow", env=cache)
    assert out.code == 0, out.err
    loaded = Guard.load(guard)
    assert loaded.detector.options()["k"] == 7
    assert loaded.detector.options()["shaping"] == "react:90"
    assert loaded.class_name(1) == "dog"
    assert "this guard, with probability 0.9" in out.out
    for wrong, word in (
        (("--detector", "knn?j=7"), "has no option 'j'"),
        (("--calibration-data", folder / "images"), "named twice"),
        (("--calibration-data", "nowhere"), "does not exist"),
        (("--output", tmp_path / "no" / "g.safetensors"), "does not exist: create it"),
    ):
        refused = run(*fit, *wrong, env={"THEODOLITE_CACHE": str(tmp_path / "fresh")})
        assert_refused(refused, word)
        assert not (tmp_path / "fresh").exists(), "refused before any picture was looked at"
