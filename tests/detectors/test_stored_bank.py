"""Banks on disk: the scores of the bank in memory, in bounded memory, and never from another store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import theodolite as th
from synthetic import Problem, make_problem
from theodolite.core.errors import FormatError, InputError
from theodolite.core.files import sha256
from theodolite.detectors._stored_bank import StoredBank
from theodolite.features.manifest import Recipe
from theodolite.features.store import FeatureStore
from theodolite.features.writer import Rows, StoreWriter

ROWS, SHARD_ROWS = 600, 128
NAMES = [f"{row}.png" for row in range(ROWS)]
PROBLEM = make_problem(rows=ROWS)


def write_store(folder: Path, problem: Problem = PROBLEM, *, weights: str = "a" * 64) -> Path:
    recipe = Recipe("toy", weights, "plain", "fc", "b" * 64, samples=ROWS)
    writer = StoreWriter.open(folder, recipe, problem.head, source="toy", shard_rows=SHARD_ROWS)
    for index in writer.missing():
        samples = writer.samples(index)
        part = slice(samples.start, samples.stop)
        writer.write(
            index,
            Rows([problem.train[part]], [int(c) for c in problem.labels[part]], NAMES[part]),
        )
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("bank") / "store")


@pytest.mark.parametrize(
    "options", [{}, {"fraction": 0.3, "seed": 5}, {"shaping": "ash-s:35"}, {"k": 10_000}]
)
@pytest.mark.parametrize("name", ["knn", "nnguide"])
def test_scores_equal_those_of_the_bank_in_memory(
    name: str, options: dict[str, object], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # several blocks, none of them a shard
    monkeypatch.setattr(
        "theodolite.detectors._stored_bank.BLOCK_ROWS", 200
    )  # several blocks, none of them a shard
    read = th.FeatureStore(store)
    in_memory = th.create(name, **options).fit(read, head=read.head)
    on_disk = th.create(name, store=store, **options).fit()
    expected = in_memory.score(PROBLEM.ood)
    torch.testing.assert_close(on_disk.score(PROBLEM.ood), expected, rtol=1e-6, atol=1e-6)
    assert on_disk.score(PROBLEM.ood.numpy()).shape == (len(PROBLEM.ood),)


def test_a_shaping_that_learns_is_fitted_on_features(store: Path) -> None:
    read = th.FeatureStore(store)
    with pytest.raises(InputError, match="features are missing: ReAct"):
        th.KNN(store=store, shaping="react:80").fit()
    on_disk = th.KNN(store=store, shaping="react:80").fit(read, head=read.head)
    in_memory = th.KNN(shaping="react:80").fit(read, head=read.head)
    torch.testing.assert_close(on_disk.score(PROBLEM.ood), in_memory.score(PROBLEM.ood))


def test_blocks_are_bounded_and_in_order(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.detectors._stored_bank.BLOCK_ROWS", 300)
    bank = StoredBank(store, lambda rows: rows, torch.zeros(0, dtype=torch.int64))
    blocks = list(bank.blocks())
    assert max(map(len, blocks)) <= 300
    torch.testing.assert_close(torch.cat(blocks), PROBLEM.train)
    places = torch.tensor([599, 0, 130, 130, 127])
    torch.testing.assert_close(bank.rows(places), PROBLEM.train[places])


@pytest.mark.parametrize("name", ["knn", "nnguide"])
def test_saved_detectors_keep_the_store_and_refuse_another(name: str, tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    detector = th.create(name, store=store, fraction=0.5).fit()
    detector.save(tmp_path / "saved")
    assert (tmp_path / "saved").stat().st_size < PROBLEM.train.nbytes / 2
    again = th.load(tmp_path / "saved")
    assert again.options()["store"] == str(store)
    torch.testing.assert_close(again.score(PROBLEM.ood), detector.score(PROBLEM.ood), rtol=0, atol=0)

    store.rename(tmp_path / "away")
    with pytest.raises(InputError, match="which is not there"):
        th.load(tmp_path / "saved")
    # The same recipe, other features: the key alone would not tell.
    write_store(store, make_problem(rows=ROWS, seed=1))
    with pytest.raises(InputError, match="has changed since the detector was fitted"):
        th.load(tmp_path / "saved")


def test_another_recipe_is_another_store(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    th.KNN(store=store).fit().save(tmp_path / "saved")
    store.rename(tmp_path / "away")
    write_store(store, weights="c" * 64)
    with pytest.raises(InputError, match="has changed"):
        th.load(tmp_path / "saved")


def test_width_must_match(store: Path) -> None:
    narrow = make_problem(width=12)
    with pytest.raises(InputError, match="holds features of width 48, not 12"):
        th.KNN(store=store).fit(head=narrow.head)


def changed(store: Path, *, value: float = float("nan")) -> Path:
    """A shard written over in place, as `cp` does: the same inode, the same size, other numbers."""
    shard = store / "shard-00002.safetensors"
    content = bytearray(shard.read_bytes())
    content[-4000:] = np.full(1000, value, dtype="<f4").tobytes()
    shard.write_bytes(content)
    return shard


@pytest.mark.parametrize("name", ["knn", "nnguide"])
def test_a_bank_that_changes_under_a_running_process_is_refused(name: str, tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    detector = th.create(name, store=store).fit()
    before = detector.score(PROBLEM.ood)
    whole = (store / "shard-00002.safetensors").read_bytes()
    shard = changed(store)
    for _ in range(2):
        with pytest.raises(FormatError, match=r"shard-00002\.safetensors is missing or damaged"):
            detector.score(PROBLEM.ood)
    shard.write_bytes(whole)
    torch.testing.assert_close(detector.score(PROBLEM.ood), before, rtol=0, atol=0)


@pytest.mark.parametrize("cut", [0, 100, 20_000])
def test_a_bank_cut_short_is_refused_and_does_not_end_the_process(cut: int, tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    detector = th.KNN(store=store).fit()
    detector.score(PROBLEM.ood)
    os.truncate(store / "shard-00001.safetensors", cut)
    with pytest.raises(FormatError, match=r"shard-00001\.safetensors is missing or damaged"):
        detector.score(PROBLEM.ood)
    (store / "shard-00001.safetensors").unlink()
    with pytest.raises(FormatError, match=r"shard-00001\.safetensors is missing or damaged"):
        detector.score(PROBLEM.ood)


@pytest.mark.parametrize("name", ["knn", "nnguide"])
def test_a_bank_that_changes_during_a_search_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first shard changes while the last is read, after its own rows were compared."""
    store = write_store(tmp_path / "store")
    detector = th.create(name, store=store).fit()
    detector.score(PROBLEM.ood)
    features, read = FeatureStore.features, []

    def meanwhile(self: FeatureStore, index: int) -> torch.Tensor:
        read.append(index)
        if index == 4:
            changed(store, value=7.0)
        return features(self, index)

    monkeypatch.setattr(FeatureStore, "features", meanwhile)
    with pytest.raises(InputError, match="changed while it was searched"):
        detector.score(PROBLEM.ood)
    assert 4 in read


def test_a_bank_that_was_only_touched_is_still_the_bank(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store")
    detector = th.KNN(store=store).fit()
    before = detector.score(PROBLEM.ood)
    for shard in store.glob("shard-*"):
        os.utime(shard, ns=(1, 1))
    copy = shutil.copyfile(store / "shard-00000.safetensors", tmp_path / "copy")
    copy.replace(store / "shard-00000.safetensors")
    torch.testing.assert_close(detector.score(PROBLEM.ood), before, rtol=0, atol=0)


def test_a_shard_is_hashed_once_as_long_as_nothing_happens_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write_store(tmp_path / "store")
    hashed: list[Path] = []

    def counted(path: Path) -> str:
        hashed.append(path)
        return sha256(path)

    monkeypatch.setattr("theodolite.features.store.sha256", counted)
    detector = th.KNN(store=store).fit()
    for _ in range(3):
        detector.score(PROBLEM.ood)
    assert sorted(path.name for path in hashed if "shard" in path.name) == [
        f"shard-{index:05d}.safetensors" for index in range(5)
    ]
