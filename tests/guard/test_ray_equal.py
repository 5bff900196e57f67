"""What a fit, an extraction and verdicts on Ray give is what one machine gives: on a Ray that is played."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from made_guards import fitted as made_guard
from made_guards import head
from played_ray import PlayedRay, played_ray
from theodolite import ExtractionSettings, Guard, Head, Running, extract, fit_guard, fit_parts
from theodolite.core.errors import InputError
from theodolite.guard import ray_fit
from theodolite.report.ray_scores import score_on_ray

pytestmark = pytest.mark.usefixtures("played_ray", "one_thread", "cache")

TINY = "python:small_models:Tiny?mean=0&size=8"
LAYERS = "python:small_models:TinyConv?mean=0&size=8"
HERE = Running(channels_last=False, batch_size=4)
ON_RAY = Running(channels_last=False, batch_size=4, engine="ray")
BOTH = (HERE, ON_RAY)

__all__ = ["played_ray"]


@pytest.fixture
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for index in range(60):
        place = folder / "abc"[index % 3]
        place.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(place / f"{index:03d}.png")
    return folder


def fitted(data: Any, model: str | None = None, **others: Any) -> tuple[Guard, Guard]:
    """Here, and on Ray, into caches of their own."""
    kind, layer = others.pop("kind", None), others.pop("layer", None)
    guards = []
    for number, running in enumerate(BOTH):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", f"cache-{number}")
            settings = ExtractionSettings(kind=kind, layer=layer, running=running)
            known = {"false_alarm_rate": 0.3, "force": True, **others}
            guards.append(fit_guard(data, model, settings=settings, **known).guard)
    here, there = guards
    return here, there


def assert_same(here: Guard, there: Guard) -> None:
    assert there.detector.options() == here.detector.options()
    assert there.provenance == here.provenance
    assert there.origin == here.origin
    assert there.title == here.title
    learnt, expected = (dict(guard.detector.named_buffers()) for guard in (there, here))
    assert learnt.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(learnt[name], tensor, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(there.calibration.scores, here.calibration.scores, rtol=1e-6)


# ------------------------------------------------------------------ fits


def test_a_score_that_asks_more_of_the_model_is_the_same(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ODIN's nudge: not the score of unchanged inputs in its place."""
    monkeypatch.chdir(tmp_path)
    here, there = fitted(pictures, TINY, detector="odin")
    assert here.provenance is not None
    assert here.provenance.model_score is not None
    assert_same(here, there)


def test_scores_of_several_layers_are_refused_before_a_picture_is_read(
    pictures: Path, tmp_path: Path, played_ray: PlayedRay
) -> None:
    settings = ExtractionSettings(layer="stem,block", running=ON_RAY)
    with pytest.raises(InputError, match="not fitted on Ray"):
        fit_guard(pictures, LAYERS, detector="knn", settings=settings)
    assert played_ray.tasks == 0
    store = extract(pictures, LAYERS, output=tmp_path / "store", settings=settings)
    with pytest.raises(InputError, match="not fitted on Ray"):
        fit_guard(store.path, detector="knn", settings=ExtractionSettings(running=ON_RAY))


def test_files_of_the_same_name_are_told_apart_as_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for name in "ab":
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "train.npy", rng.normal(size=(300, 8)).astype("f4"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_fit, "_ROWS", 100)
    assert_same(*fitted(["a/train.npy", "b/train.npy"], detector="knn"))


def test_the_head_of_an_encoder_is_passed_on(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ExtractionSettings(headless=True, force=True, running=HERE)
    store = extract(pictures, TINY, output=tmp_path / "store", settings=settings)
    given = Head(torch.randn(3, store.width, generator=torch.Generator().manual_seed(0)))
    here, there = fitted(store.path, detector="ora", head=given)
    assert there.detector.head is not None
    assert_same(here, there)


def test_what_files_hold_is_passed_on_to_the_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays under names of their own are features because it was said."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("fit", "new"):
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(200, 8)).astype("f4"))
    assert_same(*fitted("fit.npz", calibration="new.npz", detector="knn", kind="features"))


# ------------------------------------------------------------------ what is refused, and what is nothing


@pytest.mark.parametrize("engine", ["ray", "nonsense"])
def test_verdicts_that_this_process_gives_refuse_an_engine(engine: str, tmp_path: Path) -> None:
    """Else it would run here, silently."""
    np.savez(tmp_path / "rows.npz", features=np.zeros((4, 16), np.float32))
    expected = "score_on_ray" if engine == "ray" else "engine must be"
    with pytest.raises(InputError, match=expected):
        list(made_guard(200).score_paths(tmp_path / "rows.npz", running=Running(engine=engine)))


def test_what_nothing_is_done_on_a_cluster_for_refuses_an_engine(tmp_path: Path) -> None:
    settings = ExtractionSettings(running=ON_RAY)
    np.savez(tmp_path / "rows.npz", features=np.zeros((4, 16), np.float32))
    with pytest.raises(InputError, match=r"to import .* is done by this process"):
        extract(tmp_path / "rows.npz", head=head(), output=tmp_path / "store", settings=settings)
    for calibration in (None, tmp_path / "rows.npz"):
        with pytest.raises(InputError, match="to merge parts is done by this process"):
            fit_parts([tmp_path / "part.safetensors"], calibration=calibration, settings=settings)


def test_a_shard_of_unreadable_pictures_has_no_verdicts(pictures: Path, tmp_path: Path) -> None:
    shutil.copytree(pictures, tmp_path / "new")
    for path in sorted((tmp_path / "new" / "a").iterdir())[:9]:
        path.write_bytes(b"no picture")
    guards = fitted(pictures, TINY, detector="knn")
    for number, (guard, running) in enumerate(zip(guards, BOTH, strict=True)):
        settings = ExtractionSettings(shard_rows=4, running=replace(running, skip_unreadable=True))
        store = extract(tmp_path / "new", TINY, output=tmp_path / f"store-{number}", settings=settings)
        assert 0 in [len(store.shard(index).names) for index in range(store.shards)]
        assert sum(map(len, guard.score_paths(store.path))) == 51
    tally = score_on_ray(guards[0], store.path, tmp_path / "scores.parquet")
    assert tally.verdicts.total() == 51
