"""EXIF orientation in guards and stores: turned alike in fitting and in judging, or said where it is not."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.features import ExtractionSettings, FeatureStore, Running, extract
from theodolite.guard import Guard, fit_guard
from theodolite.models import load_model

MODEL = "python:small_models:Tiny?mean=0&size=8"
TAG = 0x0112
TURNS = {3: 7, 6: 5, 8: 2}  # pictures of each orientation; the other 46 are upright
TILTED = sum(TURNS.values())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """60 pictures as a camera stores them, as they are meant to be seen, and without a word; and others."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    turns = [turn for turn, count in TURNS.items() for _ in range(count)]
    for index in range(60):
        picture = Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8))
        exif = Image.Exif()
        exif[TAG] = turns[index] if index < len(turns) else 1
        for name in ("camera", "upright", "stored", "others"):
            (tmp_path / name).mkdir(exist_ok=True)
        ImageOps.invert(picture).save(tmp_path / "others" / f"{index:02d}.png")
        path = tmp_path / "camera" / f"{index:02d}.png"
        picture.save(path, exif=exif)
        picture.save(tmp_path / "stored" / path.name)
        with Image.open(path) as read:
            ImageOps.exif_transpose(read).save(tmp_path / "upright" / path.name)
    pixels = rng.integers(0, 256, (100, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "array.npy", pixels)
    return tmp_path


def rows(store: FeatureStore) -> torch.Tensor:
    return torch.cat([features for features, _, _ in store])


def guard_of(data: Path, **how: object) -> Guard:
    return fit_guard(data, MODEL, detector="energy", false_alarm_rate=0.2, **how).guard  # type: ignore[arg-type]


def scores(guard: Guard, path: Path) -> list[float | None]:
    return [row.score for row in guard.score_folder(path, model=MODEL)]


def of_0_1_0(store: FeatureStore) -> FeatureStore:
    """The store as version 0.1.0 wrote it: no word of orientation, no digests of pictures."""
    manifest, recipe = store.manifest, store.manifest.recipe
    shards = tuple(replace(shard, turned=0) for shard in manifest.shards)
    replace(manifest, recipe=replace(recipe, orientation=None), contents=None, shards=shards).write(
        store.path
    )
    (store.path / "contents.safetensors").unlink()
    return FeatureStore(store.path)


def test_a_store_turns_pictures_and_counts_them_once(folder: Path) -> None:
    stores = {name: extract(folder / name, MODEL) for name in ("camera", "upright", "stored")}
    torch.testing.assert_close(rows(stores["camera"]), rows(stores["upright"]), rtol=0, atol=0)
    differ = (rows(stores["camera"]) != rows(stores["stored"])).any(dim=1)
    assert differ[:TILTED].all()
    assert not differ[TILTED:].any()
    assert {name: store.turned for name, store in stores.items()} == {"camera": 14, "upright": 0, "stored": 0}
    # In shards and batches of any size, and in worker processes.
    settings = ExtractionSettings(shard_rows=5, running=Running(batch_size=3, workers=1))
    small = extract(folder / "camera", MODEL, output=folder / "small", settings=settings)
    assert small.turned == 14
    assert [shard.turned for shard in small.manifest.shards[:4]] == [5, 5, 4, 0]


def test_a_guard_of_turned_pictures_turns_what_it_judges(folder: Path) -> None:
    guard = guard_of(folder / "camera")
    assert guard.provenance is not None
    assert guard.provenance.orientation == "exif"
    guard.save(folder / "guard.safetensors")
    stored = Guard.load(folder / "guard.safetensors")
    restored = guard_of(folder / "upright")
    restored.load_state_dict(guard.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error", TheodoliteWarning)
        for one in (guard, stored, restored):
            assert one.provenance == guard.provenance
            assert scores(one, folder / "camera") == scores(one, folder / "upright")
            assert scores(one, folder / "camera") != scores(one, folder / "stored")
        attached = stored.attach(load_model(MODEL))
        opened = [Image.open(path) for path in sorted((folder / "camera").iterdir())]
        said = torch.as_tensor(attached.verdicts(opened).score).tolist()
    np.testing.assert_allclose(said, np.array(scores(guard, folder / "upright"), dtype=float), rtol=1e-6)


def test_a_guard_that_does_not_know_takes_pictures_as_stored_and_says_so(folder: Path) -> None:
    """So do guards of 0.1.0 and the ready-made ones."""
    guard = guard_of(folder / "camera")
    assert guard.provenance is not None
    guard.provenance = replace(guard.provenance, orientation=None)
    guard.save(folder / "guard.safetensors")
    old = Guard.load(folder / "guard.safetensors")
    assert old.provenance is not None
    assert old.provenance.orientation is None
    told = r"14 of the pictures are to be turned .*00\.png, .*02\.png, ….*judged as they are stored"
    with pytest.warns(TheodoliteWarning, match=told):
        said = scores(old, folder / "camera")
    assert said == scores(old, folder / "stored"), "and of these nothing is said"
    attached = old.attach(load_model(MODEL))
    with pytest.warns(TheodoliteWarning, match=r"1 of the pictures are to be turned .*inputs\[0\]"):
        attached.verdicts([Image.open(folder / "camera" / "00.png")])


def test_features_of_turned_pictures_do_not_meet_those_of_0_1_0(folder: Path) -> None:
    turned = extract(folder / "camera", MODEL, output=folder / "turned")
    upright = extract(folder / "others", MODEL, output=folder / "plain")
    old = of_0_1_0(extract(folder / "stored", MODEL, output=folder / "old"))
    array = extract(folder / "array.npy", MODEL, output=folder / "arrays")
    assert old.manifest.recipe.orientation is None
    refused = f"{re.escape(str(turned.path))}: 14 of its pictures were turned"
    for fit, calibration in ((turned, old), (old, turned)):
        with pytest.raises(InputError, match=refused):
            fit_guard(fit.path, calibration=calibration.path, detector="energy")
    with pytest.raises(InputError, match=refused):
        fit_guard([old.path, turned.path], detector="energy")
    with pytest.warns(TheodoliteWarning, match=r"old was extracted by version 0\.1\.0, which took pictures"):
        fit_guard(old.path, calibration=upright.path, detector="energy")
    with warnings.catch_warnings():
        warnings.simplefilter("error", TheodoliteWarning)
        fit_guard(turned.path, calibration=array.path, detector="energy")
        assert not fit_guard(old.path, calibration=array.path, detector="energy").guard.provenance.turns  # type: ignore[union-attr]
        fit_guard(upright.path, calibration=array.path, detector="energy")


def test_a_guard_and_a_store_of_different_turns(folder: Path) -> None:
    turned = extract(folder / "camera", MODEL, output=folder / "turned")
    guard = guard_of(folder / "camera")
    old = of_0_1_0(extract(folder / "stored", MODEL, output=folder / "old"))
    assert len(guard.score_folder(turned.path)) == 60
    with pytest.warns(TheodoliteWarning, match=r"extracted by version 0\.1\.0.*those of the guard"):
        guard.score_folder(old.path)
    old_guard = guard_of(folder / "stored")
    assert old_guard.provenance is not None
    old_guard.provenance = replace(old_guard.provenance, orientation=None)
    with pytest.raises(InputError, match=r"14 of its pictures were .* but the guard is of version 0\.1\.0"):
        old_guard.score_folder(turned.path)
    assert len(old_guard.score_folder(old.path)) == 60


def test_a_store_of_0_1_0_is_not_gone_on_with_for_turned_pictures(folder: Path) -> None:
    old = of_0_1_0(extract(folder / "camera", MODEL, output=folder / "old"))
    with pytest.raises(InputError, match="holds other features: orientation as stored, not exif"):
        extract(folder / "camera", MODEL, output=old.path)
    # Arrays have no orientation: what 0.1.0 made of them is what is made now, under the same key.
    array = extract(folder / "array.npy", MODEL, output=folder / "arrays")
    key = array.key
    assert of_0_1_0(array).key == key
    again = extract(folder / "array.npy", MODEL, output=folder / "arrays")
    assert again.manifest.recipe.orientation == "none"
    assert again.contents() is not None
