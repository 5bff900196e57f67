"""Verdicts on paths from Python: pictures, folders, data files and stores, mixed, a row a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from made_guards import fitted
from small_models import Tiny
from theodolite.core.errors import InputError, TheodoliteWarning, UnreadableImageError
from theodolite.features import FeatureStore, Running, extract
from theodolite.features.checked import checked_capture
from theodolite.guard import Guard, PathVerdict, Provenance
from theodolite.models import LoadedModel, load_model

MODEL = "python:small_models:Tiny?mean=0&size=8"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures in class folders, an archive, a store of the folder, and a guard fitted on it."""
    folder = tmp_path_factory.mktemp("paths")
    rng = np.random.default_rng(0)
    for index in range(120):
        place = folder / "images" / "abc"[index % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(place / f"{index:03d}.png")
    np.savez(folder / "more.npz", images=rng.integers(0, 256, (20, 8, 8), dtype=np.uint8))
    store = extract(folder / "images", MODEL, output=folder / "store")
    guard = Guard.fit(
        store,
        head=store.head,
        detector="energy",
        class_names=("cat", "dog", "cow"),
        provenance=Provenance.of_store(store),
    )
    guard.save(folder / "guard.safetensors")
    return folder


@pytest.fixture
def guard(folder: Path) -> Guard:
    return Guard.load(folder / "guard.safetensors")


def assert_same(rows: list[PathVerdict], guard: Guard, features: torch.Tensor, rate: float = 0.05) -> None:
    """The rows say what the guard says of the features."""
    said = guard.verdicts(features, false_alarm_rate=rate)
    assert [row.predicted for row in rows] == torch.as_tensor(said.predicted).tolist()
    assert [row.name for row in rows] == [guard.class_name(row.predicted or 0) for row in rows]
    np.testing.assert_allclose([row.score or 0 for row in rows], torch.as_tensor(said.score), rtol=1e-5)
    flagged = torch.as_tensor(said.is_ood).tolist()
    assert [row.verdict for row in rows] == ["OOD" if strange else "ID" for strange in flagged]
    assert [row.verdict == "OOD" for row in rows] == [(row.p_value or 0) <= rate for row in rows]


def features_of(store: FeatureStore) -> torch.Tensor:
    return torch.cat([features for features, _, _ in store])


def test_a_folder_at_once_says_what_its_features_say(folder: Path, guard: Guard) -> None:
    rows = guard.score_folder(folder / "images", model=MODEL)
    assert [Path(row.path) for row in rows] == sorted((folder / "images").rglob("*.png"))
    assert_same(rows, guard, features_of(FeatureStore(folder / "store")))


def test_mixed_paths_come_in_order_and_in_batches(folder: Path, guard: Guard) -> None:
    first, second = sorted((folder / "images" / "a").iterdir())[:2]
    paths: list[str | Path] = [first, str(second), folder / "store", folder / "more.npz"]
    told: list[tuple[int, int]] = []
    batches = guard.score_paths(
        paths, model=MODEL, limit=15, running=Running(batch_size=10), progress=lambda *now: told.append(now)
    )
    counts, rows = [], []
    for batch in batches:
        counts.append(len(batch))
        rows += batch
    assert counts == [2, 15, 10, 5]
    assert told == [(2, 2), (17, 17), (27, 32), (32, 32)]
    assert [row.path for row in rows[:2]] == [str(first), str(second)]
    store = FeatureStore(folder / "store")
    stored, names = features_of(store), list(store.names())
    assert_same(rows[:2], guard, stored[:2])
    chosen = [names.index(row.path) for row in rows[2:17]]
    assert chosen == sorted(chosen), "a limit takes a sample, in the order of the store"
    assert {names[row].partition("/")[0] for row in chosen} == {"a", "b", "c"}
    assert_same(rows[2:17], guard, stored[chosen])
    assert len({row.path for row in rows[17:]}) == 15


def test_one_path_need_not_be_a_list(folder: Path, guard: Guard) -> None:
    for path in (folder / "store", str(folder / "store")):
        assert sum(len(batch) for batch in guard.score_paths(path)) == 120


def test_files_of_one_name_are_told(folder: Path, guard: Guard, tmp_path: Path) -> None:
    """Their rows are called alike, and a join by the name would take one for the other."""
    (tmp_path / "more.npz").write_bytes((folder / "more.npz").read_bytes())
    again = [folder / "more.npz", tmp_path / "more.npz"]
    with pytest.warns(TheodoliteWarning, match=r"more\.npz and .*more\.npz have the same file name"):
        rows = [row for batch in guard.score_paths(again, model=MODEL) for row in batch]
    assert [row.path for row in rows[:20]] == [row.path for row in rows[20:]]


def test_the_rate_of_a_call_is_its_own(folder: Path, guard: Guard) -> None:
    (rows,) = guard.score_paths(folder / "store", false_alarm_rate=0.5)
    assert_same(rows, guard, features_of(FeatureStore(folder / "store")), rate=0.5)
    assert guard.false_alarm_rate == 0.05


def test_what_is_wrong_is_known_at_the_call(folder: Path, guard: Guard) -> None:
    """Nothing is iterated over here."""
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        guard.score_paths(folder / "store", false_alarm_rate=2)
    with pytest.raises(InputError, match=r"fitted on .*Tiny.*, not on python:small_models:Wide"):
        guard.score_paths(folder / "store", model="python:small_models:Wide")
    with pytest.raises(InputError, match="limit must be at least 1, got 0"):
        guard.score_paths(folder / "store", limit=0)


def test_unreadable_pictures_are_an_error_or_a_row(guard: Guard, tmp_path: Path) -> None:
    whole = tmp_path / "b.png"
    Image.effect_noise((8, 8), 40).save(whole)
    (tmp_path / "a.png").touch()
    (tmp_path / "c.png").write_bytes(whole.read_bytes()[:40])
    with pytest.raises(UnreadableImageError, match=r"a\.png cannot be read"):
        guard.score_folder(tmp_path, model=MODEL)
    for size in (None, 1):
        rows = guard.score_folder(
            tmp_path, model=MODEL, running=Running(skip_unreadable=True, batch_size=size)
        )
        read = [row for row in rows if row.verdict != "unreadable"]
        assert sorted(Path(row.path).name for row in rows) == ["a.png", "b.png", "c.png"]
        assert [Path(row.path).name for row in read] == ["b.png"]
        assert {row[1:5] for row in rows if row not in read} == {(None, None, None, None)}


def test_a_guard_scores_pictures_with_its_own_model_alone(folder: Path, tmp_path: Path) -> None:
    """Code only if the caller names it; no model where none is known; one at hand is used."""
    guard = Guard.load(folder / "guard.safetensors")
    with pytest.raises(InputError, match="code that would be run"):
        guard.score_folder(folder / "images")
    loaded = load_model(MODEL)
    assert len(guard.attach(loaded).score_folder(folder / "images")) == 120
    with pytest.raises(InputError, match="the guard does not know its model: it can score feature stores"):
        fitted(200).score_folder(folder / "images")
    store = FeatureStore(folder / "store")
    nameless = Guard.fit(store, head=store.head, detector="energy").attach(loaded)
    assert len(nameless.score_folder(folder / "images")) == 120
    changed = {name: tensor + 1 for name, tensor in Tiny().state_dict().items()}
    torch.save(changed, tmp_path / "other.pt")
    other = extract(folder / "more.npz", MODEL, weights=tmp_path / "other.pt", output=tmp_path / "other")
    with pytest.raises(InputError, match="with other weights, layer or preprocessing"):
        guard.score_folder(other.path)


def test_the_model_is_loaded_once_and_only_for_pictures(
    folder: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    from theodolite.guard import provenance

    asked: list[str] = []

    def counting(spec: str, *, weights: Path | None) -> LoadedModel:
        asked.append(spec)
        return load_model(spec, weights=weights)

    monkeypatch.setattr(provenance, "load_model", counting)
    guard.score_folder(folder / "store", model=MODEL)
    assert asked == []
    picture = next((folder / "images" / "a").iterdir())
    for _ in guard.score_paths([picture, folder / "more.npz"], model=MODEL):
        pass
    assert asked == [MODEL]


def test_a_headless_guard_takes_a_checkpoint_that_was_moved(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    weights, moved = tmp_path / "weights.safetensors", tmp_path / "moved.safetensors"
    save_file(Tiny().state_dict(), weights)
    loaded = load_model(MODEL, weights=weights)
    head = checked_capture(loaded).head
    features = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    origin = Provenance(loaded.spec, loaded.digest, loaded.preprocess_id, "fc", str(weights))
    guard = Guard.fit(features, head=head, detector="energy", provenance=origin)
    guard.save(tmp_path / "guard.safetensors", with_head=False)
    assert Guard.load(tmp_path / "guard.safetensors", model=MODEL).loaded is not None
    weights.rename(moved)
    with pytest.raises(InputError, match="is gone: say where it is with --weights"):
        Guard.load(tmp_path / "guard.safetensors", model=MODEL)
    again = Guard.load(tmp_path / "guard.safetensors", model=MODEL, weights=moved)
    torch.testing.assert_close(again.verdicts(features).score, guard.verdicts(features).score)
