"""From a path and a model to a store: extracted once, kept under its key, opened as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import small_models
from theodolite.core.errors import InputError
from theodolite.data import open_source
from theodolite.features import (
    ExtractionProgress,
    ExtractionSettings,
    FeatureStore,
    Running,
    extract,
    fill_store,
    open_features,
)
from theodolite.features.cached import require_data
from theodolite.models import load_model

MODEL = "python:small_models:Tiny?mean=0&size=8"


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """150 grey pictures with labels, and a cache of its own."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (150, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "pictures.npz", images=images, labels=np.arange(150) % 3)
    return tmp_path / "pictures.npz"


def rows(store: FeatureStore) -> torch.Tensor:
    return torch.cat([features for features, _, _ in store])


def test_without_an_output_the_cache_keeps_it_under_its_key(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = extract(pictures, MODEL)
    assert first.path == tmp_path / "cache" / first.key[:20]
    assert first.manifest.source == str(pictures)
    passes: list[int] = []
    seen = small_models.Tiny.forward

    def counting(model: small_models.Tiny, images: torch.Tensor) -> torch.Tensor:
        passes.append(len(images))
        return seen(model, images)

    monkeypatch.setattr(small_models.Tiny, "forward", counting)
    assert extract(pictures, MODEL).path == first.path
    assert passes == [2], "only the two images of noise that find the head"
    other = extract(pictures, MODEL, settings=ExtractionSettings(dtype="float16"))
    assert other.path != first.path
    assert sum(passes) == 2 + 2 + 150


def test_it_is_the_loop_on_an_open_source_and_a_loaded_model(pictures: Path, tmp_path: Path) -> None:
    settings = ExtractionSettings(limit=40, shard_rows=16, running=Running(batch_size=5))
    short = extract(pictures, MODEL, output=tmp_path / "short", settings=settings)
    loop = fill_store(
        load_model(MODEL), open_source(pictures), tmp_path / "loop", name=str(pictures), settings=settings
    )
    assert not (tmp_path / "cache").exists()
    for name in ("manifest.json", "head.safetensors", *(f"shard-0000{index}.safetensors" for index in "012")):
        assert (short.path / name).read_bytes() == (loop.path / name).read_bytes()
    assert (len(short), short.shards, short.manifest.batch_size) == (40, 3, 5)


def test_settings_choose_samples_and_kind(pictures: Path, tmp_path: Path) -> None:
    whole = extract(pictures, MODEL)
    second = extract(pictures, MODEL, output=tmp_path / "second", settings=ExtractionSettings(part="2/3"))
    torch.testing.assert_close(rows(second), rows(whole)[50:100])
    with pytest.raises(InputError, match="is a folder, but kind 'npy' is a file"):
        extract(tmp_path, MODEL, settings=ExtractionSettings(kind="npy"))
    with pytest.raises(InputError, match="limit must be at least 1, got 0"):
        extract(pictures, MODEL, settings=ExtractionSettings(limit=0))


def test_progress_says_what_is_looked_at_how_far_and_where_it_is_kept(pictures: Path, tmp_path: Path) -> None:
    told: list[ExtractionProgress] = []
    settings = ExtractionSettings(running=Running(batch_size=60))
    store = extract(pictures, MODEL, settings=settings, progress=told.append)
    assert [(now.done, now.total) for now in told] == [
        (0, 0),
        (0, 150),
        (60, 150),
        (120, 150),
        (150, 150),
        (150, 150),
    ]
    assert {(now.model, now.data) for now in told} == {(MODEL, str(pictures))}
    assert [now.kept for now in told] == [None] * 5 + [store.path]
    told.clear()
    extract(pictures, MODEL, output=tmp_path / "own", settings=settings, progress=told.append)
    assert all(now.kept is None for now in told)


def test_a_wrong_path_is_known_before_the_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        extract(tmp_path / "nowhere", "timm:no-such-model")


def test_a_store_is_opened_as_it_is(pictures: Path, tmp_path: Path) -> None:
    made = extract(pictures, MODEL, output=tmp_path / "store")
    assert open_features(made.path).key == made.key
    assert open_features(str(made.path), MODEL).key == made.key
    assert not (tmp_path / "cache").exists()
    kept = open_features(pictures, MODEL)
    assert kept.path.parent == tmp_path / "cache"
    assert kept.key == made.key
    with pytest.raises(InputError, match="is not a feature store: --model says which"):
        open_features(pictures)
    with pytest.raises(InputError, match=r"holds features of .*Tiny.*, not of python:small_models:Wide"):
        open_features(made.path, "python:small_models:Wide")
    for name, value in {"layer": "fc", "limit": 5, "kind": "flat", "part": "1/2"}.items():
        with pytest.raises(InputError, match=f"--{name} is for images, but .* is a feature store"):
            open_features(made.path, settings=ExtractionSettings(**{name: value}))  # type: ignore[arg-type]


def test_data_can_be_checked_before_any_work(pictures: Path, tmp_path: Path) -> None:
    require_data(pictures)
    require_data(extract(pictures, MODEL).path)
    with pytest.raises(InputError, match="does not exist"):
        require_data(tmp_path / "nowhere")


def test_a_checkpoint_of_ones_own_is_remembered_by_its_whole_path(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import save_file

    changed = {name: tensor + 1 for name, tensor in small_models.Tiny().state_dict().items()}
    save_file(changed, tmp_path / "weights.safetensors")
    monkeypatch.chdir(tmp_path)
    other = extract(pictures, MODEL, weights="weights.safetensors")
    assert other.manifest.weights_file == str(tmp_path / "weights.safetensors")
    assert other.key != extract(pictures, MODEL).key
