"""The store alone: what is written comes back, and what is not whole is never taken for whole."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from theodolite import ORA, Head, create, list_detectors
from theodolite.core import files
from theodolite.core.errors import FormatError, InputError, StorageError
from theodolite.features.manifest import Manifest, Recipe, listing_digest, shard_name
from theodolite.features.store import FeatureStore, is_store, number_of
from theodolite.features.writer import Rows, StoreWriter
from theodolite.reference.bank import ALL_ROWS
from theodolite.reference.reference import Reference
from theodolite.reference.statistics import Needs

WIDTH, CLASSES, SAMPLES, SHARD_ROWS = 6, 3, 50, 16


def recipe(**changes: object) -> Recipe:
    parts: dict[str, object] = {
        "model": "python:toy:make",
        "weights": "a" * 64,
        "preprocess": "plain",
        "layer": "fc",
        "data": listing_digest(f"{i}.png" for i in range(SAMPLES)),
        "samples": SAMPLES,
    }
    return Recipe(**{**parts, **changes})  # type: ignore[arg-type]


def head() -> Head:
    return Head(torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(1)))


def data() -> tuple[Tensor, Tensor, list[str]]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(SAMPLES, WIDTH, generator=generator)
    return features, torch.arange(SAMPLES) % CLASSES, [f"{i}.png" for i in range(SAMPLES)]


def rows_of(samples: range, *, skip: frozenset[int] = frozenset(), labels: bool = True) -> Rows:
    features, targets, names = data()
    kept = [i for i in samples if i not in skip]
    return Rows(
        features=[features[kept]],
        labels=[int(targets[i]) if labels else None for i in kept],
        names=[names[i] for i in kept],
        skipped=[names[i] for i in samples if i in skip],
    )


def write(
    folder: Path, made: Recipe | None = None, *, skip: frozenset[int] = frozenset(), labels: bool = True
) -> StoreWriter:
    writer = StoreWriter.open(folder, made or recipe(), head(), source="toy", shard_rows=SHARD_ROWS)
    for index in writer.missing():
        writer.write(index, rows_of(writer.samples(index), skip=skip, labels=labels))
    return writer


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def flip_bit(path: Path, position: int = -3) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "s")
    store = FeatureStore(tmp_path / "s", recipe=recipe())
    features, labels, names = data()
    read = list(store)
    assert len(store) == SAMPLES
    assert [len(batch[0]) for batch in read] == [16, 16, 16, 2]
    torch.testing.assert_close(torch.cat([batch[0] for batch in read]), features, rtol=0, atol=0)
    torch.testing.assert_close(torch.cat([batch[1] for batch in read if batch[1] is not None]), labels)
    assert torch.cat([batch[2] for batch in read]).tolist() == [number_of(name) for name in names]
    assert list(store.names()) == names
    assert store.head is not None
    torch.testing.assert_close(store.head.weight, head().weight, rtol=0, atol=0)


def test_names_are_numbered_once_for_all_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a reader does to the numbers it was given is its own business."""
    write(tmp_path / "s")
    store = FeatureStore(tmp_path / "s")
    numbered: list[str] = []

    def counting(name: str) -> int:
        numbered.append(name)
        return number_of(name)

    monkeypatch.setattr("theodolite.features.store.number_of", counting)
    expected = [number_of(name) for name in data()[2]]
    assert torch.cat(list(store.labels())).tolist() == data()[1].tolist()
    assert numbered == [], "labels alone need no numbers, and keep nothing"
    for _ in range(3):
        read = list(store)
        assert torch.cat([ids for _, _, ids in read]).tolist() == expected
        for _, _, ids in read:
            ids.zero_()
    assert numbered == data()[2]


def test_a_store_is_data_for_fit_and_for_a_bank(tmp_path: Path) -> None:
    write(tmp_path / "s")
    store = FeatureStore(tmp_path / "s")
    features, labels, names = data()
    ids = torch.tensor([number_of(name) for name in names])
    probe = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(5))
    streamed = ORA(centre="predicted").fit(store, head=store.head).score(probe)
    whole = ORA(centre="predicted").fit(features, labels, head=head()).score(probe)
    torch.testing.assert_close(streamed, whole)
    for size in (7, ALL_ROWS):
        needs = Needs(bank=size)
        from_store = Reference.collect(store, head=store.head, needs=needs).statistics.bank
        in_memory = Reference.collect(features, labels, head=head(), needs=needs, ids=ids).statistics.bank
        assert torch.equal(from_store.features, in_memory.features)
        assert torch.equal(from_store.ids, in_memory.ids)


def test_every_score_fits_from_a_store_as_from_arrays(tmp_path: Path) -> None:
    """Banks included: their choice of rows goes by the samples' ids, wherever the rows come from."""
    write(tmp_path / "s")
    store = FeatureStore(tmp_path / "s")
    features, labels, names = data()
    ids = torch.tensor([number_of(name) for name in names])
    probe = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(5))
    for name in list_detectors():
        streamed = create(name).fit(store, head=store.head)
        whole = create(name).fit(features, labels, head=head(), ids=ids)
        torch.testing.assert_close(streamed.score(probe), whole.score(probe), rtol=1e-4, atol=1e-4)


def test_batches_of_any_size_hold_the_same_rows(tmp_path: Path) -> None:
    write(tmp_path / "s")
    store = FeatureStore(tmp_path / "s")
    sizes = [len(batch[0]) for batch in store.batches(5)]
    assert max(sizes) == 5
    assert sum(sizes) == SAMPLES
    torch.testing.assert_close(torch.cat([batch[0] for batch in store.batches(5)]), data()[0])
    with pytest.raises(InputError, match="rows must be at least 1"):
        next(store.batches(0))


def test_float16_halves_the_file_and_rounds_once(tmp_path: Path) -> None:
    write(tmp_path / "full")
    write(tmp_path / "half", recipe(dtype="float16"))
    store = FeatureStore(tmp_path / "half")
    read = torch.cat([batch[0] for batch in store])
    assert read.dtype == torch.float16
    assert torch.equal(read, data()[0].half())


def test_float16_that_overflows_is_refused_and_named(tmp_path: Path) -> None:
    writer = StoreWriter.open(tmp_path / "s", recipe(dtype="float16"), head(), source="toy", shard_rows=16)
    rows = rows_of(writer.samples(0))
    rows.features[0][4, 2] = 1e6
    with pytest.raises(InputError, match=r"4\.png .*float16: use --dtype float32"):
        writer.write(0, rows)
    assert FeatureStore(tmp_path / "s", incomplete_ok=True).shards == 0


def test_samples_without_labels_and_skipped_samples(tmp_path: Path) -> None:
    write(tmp_path / "s", skip=frozenset({3, 17, *range(48, 50)}), labels=False)
    store = FeatureStore(tmp_path / "s")
    assert store.skipped == ["3.png", "17.png", "48.png", "49.png"]
    assert len(store) == 46
    assert not store.labelled
    assert all(labels is None for _, labels, _ in store)
    assert store.shard(3).features.shape == (0, WIDTH)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"weights": "b" * 64}, "weights aaaaaaaaaaaa…, not bbbbbbbbbbbb…"),
        ({"dtype": "float16"}, "dtype float32, not float16"),
        ({"layer": "head.fc"}, "layer fc, not head.fc"),
        ({"preprocess": "crop"}, "preprocess plain, not crop"),
        ({"data": "c" * 64}, "data "),
        ({"limit": 50}, "limit None, not 50"),
        ({"autocast": True}, "autocast False, not True"),
        ({"model": "timm:other"}, "model python:toy:make, not timm:other"),
    ],
)
def test_features_of_another_recipe_are_never_read_or_overwritten(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    write(tmp_path / "s")
    before = contents(tmp_path / "s")
    assert recipe(**change).key != recipe().key
    with pytest.raises(InputError, match="holds other features") as refused:
        FeatureStore(tmp_path / "s", recipe=recipe(**change))
    assert named in str(refused.value)
    with pytest.raises(InputError, match="holds other features"):
        write(tmp_path / "s", recipe(**change))
    assert contents(tmp_path / "s") == before


def test_an_incomplete_store_is_refused_then_completed_to_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "whole")
    writer = StoreWriter.open(tmp_path / "s", recipe(), head(), source="toy", shard_rows=SHARD_ROWS)
    writer.write(0, rows_of(writer.samples(0)))
    with pytest.raises(InputError, match="16 of 50 samples are extracted"):
        FeatureStore(tmp_path / "s")
    resumed = write(tmp_path / "s")
    assert resumed.missing() == []
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


@pytest.mark.parametrize("position", [3, 40, 400, -1])
def test_one_flipped_bit_is_detected_and_named(tmp_path: Path, position: int) -> None:
    writer = write(tmp_path / "s")
    flip_bit(tmp_path / "s" / shard_name(2), position)
    store = FeatureStore(tmp_path / "s")
    with pytest.raises(FormatError, match=r"shard-00002\.safetensors is missing or damaged.*--repair"):
        list(store)
    assert store.damaged() == writer.damaged() == [2]


def test_a_missing_shard_and_a_damaged_head_are_detected(tmp_path: Path) -> None:
    writer = write(tmp_path / "s")
    (tmp_path / "s" / shard_name(1)).unlink()
    assert writer.damaged() == [1]
    assert writer.missing() == [1], "going on writes it again"
    with pytest.raises(FormatError, match=shard_name(1)):
        FeatureStore(tmp_path / "s")
    flip_bit(tmp_path / "s" / "head.safetensors")
    with pytest.raises(FormatError, match=r"head\.safetensors is missing or damaged"):
        FeatureStore(tmp_path / "s", incomplete_ok=True)
    writer.restore_head(head())
    assert FeatureStore(tmp_path / "s", incomplete_ok=True).damaged() == [1]


def test_a_damaged_shard_is_replaced_alone(tmp_path: Path) -> None:
    writer = write(tmp_path / "s")
    before = contents(tmp_path / "s")
    flip_bit(tmp_path / "s" / shard_name(1))
    writer.write(1, rows_of(writer.samples(1)))
    assert contents(tmp_path / "s") == before


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = StoreWriter.open(tmp_path / "s", recipe(), head(), source="toy", shard_rows=SHARD_ROWS)
    writer.write(0, rows_of(writer.samples(0)))
    before = contents(tmp_path / "s")
    real = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        real(self, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(StorageError, match=r"No space left on device.*free some space"):
            writer.write(1, rows_of(writer.samples(1)))
    assert contents(tmp_path / "s") == before
    write(tmp_path / "s")
    write(tmp_path / "whole")
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")


def test_manifests_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    good = json.loads(path.read_bytes())
    edited = {**good, "recipe": {**good["recipe"], "layer": "other"}}
    for content, message in (
        ("{", "is damaged"),
        ("[]", "is damaged"),
        (json.dumps({**good, "format": "theodolite-store/9"}), "this version reads"),
        (json.dumps({name: value for name, value in good.items() if name != "shards"}), "is damaged"),
        (json.dumps(edited), "was edited"),
        (json.dumps({**good, "shard_rows": 17}), "was edited"),
    ):
        path.write_text(content)
        with pytest.raises(FormatError, match=message):
            Manifest.read(tmp_path / "s")
    assert is_store(tmp_path / "s")
    with pytest.raises(InputError, match="is not a feature store"):
        FeatureStore(tmp_path)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    junk = tmp_path / "junk.safetensors"
    junk.write_bytes(b"not a header")
    with pytest.raises(FormatError, match="not a readable safetensors file"):
        files.read_tensors(junk, "theodolite-guard/1")
    with pytest.raises(StorageError, match="does not exist: create it first"):
        files.write_bytes(tmp_path / "nowhere" / "file", b"")
    with pytest.raises(InputError, match="dtype must be one of"):
        recipe(dtype="int8")
    assert np.unique([number_of(str(i)) for i in range(10_000)]).size == 10_000
