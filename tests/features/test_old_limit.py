"""Stores that version 0.1.0 made with a limit: the first samples, never taken for a sample of all."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import run
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.data import open_source
from theodolite.data.part import part_of
from theodolite.features import ExtractionSettings, FeatureStore, extract, fill_store
from theodolite.guard import fit_guard
from theodolite.models import load_model

MODEL = "python:small_models:Tiny?mean=0&size=8"
LIMIT = ExtractionSettings(limit=40)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes of 40 pictures."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name in "abc":
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for index in range(40):
            pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{index:02d}.png")
    return tmp_path / "pictures"


def first_of(folder: Path, place: Path) -> FeatureStore:
    """What 0.1.0 made of ``--limit 40``: the first class."""
    store = fill_store(load_model(MODEL), part_of(open_source(folder), "1/3"), place)
    recipe = replace(store.manifest.recipe, limit=40, orientation=None)
    replace(store.manifest, recipe=recipe, contents=None).write(place)
    return FeatureStore(place)


def classes_of(store: FeatureStore) -> list[int]:
    return sorted({label for _, labels, _ in store if labels is not None for label in labels.tolist()})


def test_a_limit_now_is_another_store(folder: Path, tmp_path: Path) -> None:
    old = first_of(folder, tmp_path / "old")
    assert classes_of(old) == [0]
    with pytest.raises(InputError, match="sample the first ones, not stratified, seed 0"):
        extract(folder, MODEL, output=old.path, settings=LIMIT)
    new = extract(folder, MODEL, settings=LIMIT)
    assert new.key != old.key
    assert classes_of(new) == [0, 1, 2]
    whole = extract(folder, MODEL, settings=ExtractionSettings(limit=120))
    assert whole.manifest.recipe.sample is None, "all samples are no sample"


def test_fitting_on_the_first_classes_is_said(folder: Path, tmp_path: Path) -> None:
    old = first_of(folder, tmp_path / "old")
    told = r"old holds 1 of 3 classes: version 0\.1\.0 took the first 40 samples for a --limit"
    with pytest.warns(TheodoliteWarning, match=told):
        fit_guard(old.path, detector="energy", false_alarm_rate=0.5, force=True)
    new = extract(part_of_folder(folder, tmp_path), MODEL, output=tmp_path / "new")
    as_stored = pytest.warns(TheodoliteWarning, match="which took pictures as stored")
    with as_stored, pytest.warns(TheodoliteWarning, match=told):
        fit_guard(new.path, calibration=old.path, detector="energy", force=True)
    outcome = run("fit", "--data", old.path, "--force", "--false-alarm-rate", "0.5", "-o", tmp_path / "g.st")
    assert outcome.code == 0, outcome.err
    assert "version 0.1.0 took the first 40 samples" in " ".join((outcome.out + outcome.err).split())
    limited = run("fit", "--data", old.path, "--limit", "20", "-o", tmp_path / "h.st")
    assert limited.code == 2
    assert "--limit is for images, but" in limited.err


def part_of_folder(folder: Path, tmp_path: Path) -> Path:
    """The pictures of each class, but turned round: others than the first ones."""
    for path in folder.rglob("*.png"):
        place = tmp_path / "others" / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as picture:
            picture.rotate(180).save(place / path.name)
    return tmp_path / "others"


def test_a_sample_of_every_class_is_not(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TheodoliteWarning)
        for limit in (None, 60, 120, 500):
            settings = ExtractionSettings(limit=limit)
            fit_guard(folder, MODEL, detector="energy", false_alarm_rate=0.3, force=True, settings=settings)
        part = ExtractionSettings(part="1/3", limit=40)
        fit_guard(folder, MODEL, detector="energy", false_alarm_rate=0.3, force=True, settings=part)


def test_fit_and_calibration_are_both_samples_of_every_class(folder: Path, tmp_path: Path) -> None:
    others = part_of_folder(folder, tmp_path)
    fitted = fit_guard(folder, MODEL, calibration=others, detector="mds", force=True, settings=LIMIT)
    assert fitted.fitted_on == len(fitted.guard.calibration) == 40
    for data in (folder, others):
        assert classes_of(extract(data, MODEL, settings=LIMIT)) == [0, 1, 2]
