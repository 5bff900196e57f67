"""What a fit, an extraction and verdicts on Ray give is what one machine gives: on a Ray that is played."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from made_guards import clusters, head
from made_guards import fitted as made_guard
from played_ray import PlayedRay, played_ray
from same_parts import assert_same_statistics
from theodolite import (
    ODIN,
    ExtractionSettings,
    FeatureStore,
    Guard,
    Head,
    Running,
    collect,
    extract,
    fit_guard,
    fit_parts,
)
from theodolite.core.errors import InputError, UnreadableImageError
from theodolite.features.engine import RayEngine
from theodolite.features.linear_probe import save_probe
from theodolite.guard import ray_fit
from theodolite.guard.choice import choose_detector
from theodolite.guard.ray_fit import _Collecting
from theodolite.report.ray_scores import Scoring, score_on_ray
from verdict_rows import assert_same_rows, files_of, judged, written

pytest.importorskip("pyarrow", reason="pip install 'theodolite[ray]'")
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
    for running in BOTH:
        with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", cache)
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


# ------------------------------------------------------------------ extraction


def stores(data: Path, place: Path, model: str = TINY, **others: Any) -> tuple[FeatureStore, FeatureStore]:
    """Here, and on Ray."""
    skip = others.pop("skip_unreadable", False)
    found = []
    for name, running in zip(("here", "there"), BOTH, strict=True):
        settings = ExtractionSettings(shard_rows=8, running=replace(running, skip_unreadable=skip), **others)
        found.append(extract(data, model, output=place / name, settings=settings))
    here, there = found
    assert there.manifest.recipe == here.manifest.recipe
    assert files_of(there.path) == files_of(here.path)
    return here, there


@pytest.mark.parametrize("asked", ["a nudge", "layers"])
def test_workers_give_what_a_score_asks_of_the_model(asked: str, pictures: Path, tmp_path: Path) -> None:
    """Nudged inputs, and rows of several layers: not the plain features under their name."""
    more: dict[str, Any] = {"score": ODIN()} if asked == "a nudge" else {"layer": "stem,block"}
    _, there = stores(pictures, tmp_path, LAYERS, **more)
    assert there.manifest.recipe.model_score is not None or there.manifest.recipe.rows is not None


def test_a_picture_that_cannot_be_read_is_named_or_skipped(pictures: Path, tmp_path: Path) -> None:
    shutil.copytree(pictures / "a", tmp_path / "new" / "a")
    bad = sorted((tmp_path / "new" / "a").iterdir())[3]
    bad.write_bytes(b"no picture")
    with pytest.raises(UnreadableImageError, match=bad.name) as told:
        extract(tmp_path / "new", TINY, settings=ExtractionSettings(running=ON_RAY))
    assert told.value.path == str(bad)
    _, there = stores(tmp_path / "new", tmp_path, skip_unreadable=True)
    assert there.skipped == [str(bad)]
    with pytest.raises(UnreadableImageError, match=bad.name):
        score_on_ray(
            tiny_guard(pictures),
            tmp_path / "new",
            tmp_path / "scores.parquet",
            model=TINY,
            running=ON_RAY,
        )
    assert not [path for path in tmp_path.iterdir() if "scores" in path.name], "nothing is left"


@pytest.mark.parametrize("kind", ["list", "stack", "table", "places", "limit"])
def test_data_of_every_kind_is_read_as_here(kind: str, pictures: Path, tmp_path: Path) -> None:
    files = sorted(pictures.rglob("*.png"))[::5]
    data, limit = tmp_path / "data", None
    if kind == "list":
        data = tmp_path / "list.txt"
        data.write_text("".join(f"{name} 1\n" for name in files), encoding="utf-8")
    elif kind == "stack":
        data = tmp_path / "stack.npz"
        np.savez(data, images=np.stack([np.asarray(Image.open(name)) for name in files]))
    elif kind == "limit":
        data, limit = pictures, 9
    else:
        pyarrow = pytest.importorskip("pyarrow")
        data = tmp_path / "table.parquet"
        encoded = {"image": [name.read_bytes() for name in files]}
        rows = encoded if kind == "table" else {"uri": [*map(str, files)]}
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(rows), data, row_group_size=4)
    stores(data, tmp_path, limit=limit)


# ------------------------------------------------------------------ fits


def test_statistics_are_equal_whatever_the_number_of_tasks(played_ray: PlayedRay, tmp_path: Path) -> None:
    features, labels = clusters(900, 0)
    np.savez(tmp_path / "rows.npz", features=features, labels=labels)
    for name in ("mds", "knn", "ora+react:90"):
        given: dict[str, Any] = {"detectors": [name], "head": head()}
        looks = [collect(tmp_path / "rows.npz", **given)] if "+" in name else []
        local = collect(tmp_path / "rows.npz", first_look=looks, **given)
        plan = _Collecting(
            (tmp_path / "rows.npz",), choose_detector(name), 0.2, head(), None, "features", False
        )
        for count in (1, 5):
            assert_same_statistics(local, plan.collected(played_ray, count))


def test_a_guard_on_pictures_is_the_same(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here, there = fitted(pictures, TINY, detector="ora")
    assert there.class_names == here.class_names
    assert_same(here, there)


def test_labels_are_compared_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On all rows of few, so that what is refused here is refused there; of many, on those held out."""
    monkeypatch.chdir(tmp_path)
    features, labels = clusters(400, 0, spread=6.0)
    np.savez("rows.npz", features=features, labels=labels)
    given: dict[str, Any] = {"detector": "ora", "head": head(), "false_alarm_rate": 0.3}
    here, there = (
        fit_guard("rows.npz", settings=ExtractionSettings(running=running), **given) for running in BOTH
    )
    assert here.agreement == there.agreement
    assert here.notes == there.notes
    np.savez("wrong.npz", features=features, labels=labels.roll(1))
    for running in BOTH:
        with pytest.raises(InputError, match="of the labels"):
            fit_guard("wrong.npz", settings=ExtractionSettings(running=running), **given)
    monkeypatch.setattr(ray_fit, "_COMPARED", 100)
    with pytest.raises(InputError, match="of the labels"):
        fit_guard("wrong.npz", settings=ExtractionSettings(running=ON_RAY), **given)


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


# ------------------------------------------------------------------ verdicts


def tiny_guard(pictures: Path) -> Guard:
    settings = ExtractionSettings(running=HERE)
    return fit_guard(
        pictures, TINY, detector="ora", force=True, false_alarm_rate=0.3, settings=settings
    ).guard


def test_pictures_and_stores_are_judged_as_here(pictures: Path, tmp_path: Path) -> None:
    guard = tiny_guard(pictures)
    store = extract(
        pictures, TINY, settings=ExtractionSettings(shard_rows=8, running=HERE), output=tmp_path / "s"
    )
    for number, data in enumerate((pictures, store.path)):
        output = tmp_path / f"{number}.parquet"
        score_on_ray(guard, data, output, model=TINY, running=ON_RAY)
        assert_same_rows(judged(guard, data, HERE, TINY), written(output))
        assert len([*output.iterdir()]) > 1, "in runs of batches, or of shards"
    limited = Scoring(limit=10)
    tally = score_on_ray(guard, store.path, tmp_path / "limited.parquet", scoring=limited)
    assert tally.verdicts.total() == 10


# ------------------------------------------------------------------ what is refused, and what is nothing


def test_more_than_this_machine_has_is_refused_at_once(pictures: Path) -> None:
    running = replace(HERE, engine=RayEngine(gpus=64))
    with pytest.raises(InputError, match="64 GPUs"):
        extract(pictures, TINY, settings=ExtractionSettings(running=running))


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


def test_words_are_not_forgotten_on_ray(pictures: Path, tmp_path: Path) -> None:
    """They ask for NegLabel, and for the model that embeds them: not for the recommended score."""
    store = extract(pictures, "python:small_models:Named?mean=0&size=8", output=tmp_path / "store").path
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    settings = ExtractionSettings(running=ON_RAY)
    with pytest.raises(InputError, match="python models know no texts"):
        fit_guard(store, negatives=tmp_path / "words.txt", settings=settings, force=True)
    drawn = torch.randn(30, 16, generator=torch.Generator().manual_seed(0))
    for model in ("openclip:another", "python:small_models:Named"):
        save_probe(Head.cosine(drawn), tmp_path / "words.safetensors", model=model)
        asked = f"neglabel?negatives={tmp_path / 'words.safetensors'}"
        if model == "openclip:another":
            with pytest.raises(InputError, match="holds words as openclip:another embeds them"):
                fit_guard(store, detector=asked, settings=settings, force=True)
        else:
            assert_same(*fitted(store, detector=asked))
