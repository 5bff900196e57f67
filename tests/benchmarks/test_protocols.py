"""Data sets, where they are, and protocols: what is found is counted, and wrong counts are never used."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from command_server import run
from theodolite import published
from theodolite.benchmarks.datasets import Split, dataset, list_datasets
from theodolite.benchmarks.locate import locate
from theodolite.benchmarks.negatives import Negatives
from theodolite.benchmarks.protocols import find_protocol, list_protocols, own_protocol, protocol
from theodolite.core.errors import InputError
from theodolite.data import as_picture, open_source
from theodolite.features.manifest import listing_digest

IMAGES = "t10k-images-idx3-ubyte.gz"


def write_idx(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes((0, 0, 8, values.ndim)) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


def write_digits(root: Path, name: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    write_idx(root / name / IMAGES, images)
    labels = (np.arange(count) % 10).astype(np.uint8)
    write_idx(root / name / "t10k-labels-idx1-ubyte.gz", labels)
    return images


def test_every_set_of_a_protocol_is_a_data_set_with_that_split() -> None:
    names = [known.name for known in list_protocols()]
    assert names[:4] == ["cifar10", "imagenet", "near-ood", "mnist"]
    openood = ("cifar10", "cifar100", "imagenet200", "imagenet1k")
    assert names[4:] == ["clinc150", *(f"openood-{name}" for name in openood)]
    for known in list_protocols():
        for part in known.sets:
            assert part.dataset is not None
            assert part.split in dataset(part.dataset).splits
    assert [part.name for part in protocol("cifar10").ood] == ["svhn", "isun", "places365", "textures"]
    assert [part.name for part in protocol("mnist").ood] == ["fashion-mnist", "notmnist", "negatives"]


def test_every_published_ood_set_belongs_to_a_protocol() -> None:
    for table in published.list_tables():
        for cell in published.load_table(table).cells():
            known = find_protocol(cell.protocol)
            if known is not None and cell.ood not in (None, published.AVERAGE):
                spelled = {part.published or part.name for part in known.ood}
                assert cell.ood in spelled, (table, cell.ood)


def test_counts_of_the_data_sets() -> None:
    counts = {
        (entry.name, name): split.count for entry in list_datasets() for name, split in entry.splits.items()
    }
    far = [counts[name, "test"] for name in ("inaturalist", "sun", "places", "textures")]
    assert far == [10_000, 10_000, 10_000, 5_640]
    assert counts["imagenet", "test"] == 50_000
    assert counts["imagenet", "train"] == 1_281_167
    assert (counts["ninco", "test"], counts["ssb-hard", "test"]) == (5_879, 49_000)
    assert [counts["clinc150", name] for name in ("train", "val", "test", "oos")] == [
        15_000,
        3_000,
        4_500,
        1_000,
    ]
    assert len(list_datasets()) == 20
    assert all(entry.obtain for entry in list_datasets())


def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path: Path) -> None:
    found = locate("textures", "test", tmp_path)
    assert found.state == "missing"
    assert "dtd/images" in found.detail
    with pytest.raises(InputError, match=r"Textures.*How to get it: https://"):
        found.open()
    assert locate("textures", "test", None).state == "missing"


def test_a_wrong_count_is_reported_and_never_used(tmp_path: Path) -> None:
    write_digits(tmp_path, "fashion-mnist", 30)
    found = locate("fashion-mnist", "test", tmp_path)
    assert found.state == "wrong"
    assert "30 samples, expected 10,000" in found.detail
    with pytest.raises(InputError, match="30 samples, expected 10,000"):
        found.open()
    part = next(part for part in protocol("mnist").ood if part.name == "fashion-mnist")
    with pytest.raises(InputError, match="30 samples, expected 10,000"):
        part.open(tmp_path)


def test_other_samples_under_the_same_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = write_digits(tmp_path, "notmnist", 12)
    source = open_source(tmp_path / "notmnist" / IMAGES)
    known = Split(12, (f"notmnist/{IMAGES}",), listing=listing_digest(source.listing()))
    monkeypatch.setitem(dataset("notmnist").splits, "test", known)
    assert locate("notmnist", "test", tmp_path, verify=True).detail == "12 samples, listing as the original"
    write_idx(tmp_path / "notmnist" / IMAGES, images[::-1].copy())
    assert locate("notmnist", "test", tmp_path).present
    found = locate("notmnist", "test", tmp_path, verify=True)
    assert found.state == "wrong"
    assert "other ones than the original" in found.detail


def test_negatives_turn_every_picture_round(tmp_path: Path) -> None:
    images = write_digits(tmp_path, "mnist", 5)
    source = open_source(tmp_path / "mnist" / IMAGES)
    negative = Negatives(source)
    assert len(negative) == 5
    assert np.array_equal(np.asarray(as_picture(negative[3].image)), 255 - images[3])
    assert negative[3].label is None
    assert negative[3].id != source[3].id
    assert listing_digest(negative.listing()) != listing_digest(source.listing())
    assert len(set(negative.listing())) == 5


def test_own_protocols_need_other_data_to_fit_on(tmp_path: Path) -> None:
    made = own_protocol(test="test", fit="fit", ood={"far": "far"})
    assert [part.name for part in made.sets] == ["id_fit", "id_test", "far"]
    with pytest.raises(InputError, match="--ood"):
        own_protocol(test="test", fit="fit", ood={})
    with pytest.raises(InputError, match="--fit"):
        own_protocol(test="test", fit=None, ood={"far": "far"})
    with pytest.raises(InputError, match="mean nothing"):
        own_protocol(test=str(tmp_path), fit=str(tmp_path), ood={"far": "far"})
    for name in ("id_test", "ood_val"):
        with pytest.raises(InputError, match=f"cannot be called '{name}'"):
            own_protocol(test="test", fit="fit", ood={name: "far"})
    with pytest.raises(InputError, match="near-ood"):
        protocol("cifar11")


def test_the_data_command_shows_what_is_wrong_and_fails_for_it(tmp_path: Path) -> None:
    write_digits(tmp_path, "fashion-mnist", 30)
    out = run("data", "--root", tmp_path, env={"COLUMNS": "300"})
    assert out.code == 1
    assert "30 samples, expected 10,000" in " ".join(out.out.split())
    assert "near-ood: needs imagenet (train) missing" in out.out
    empty = run("data", "--root", tmp_path / "fashion-mnist", env={"COLUMNS": "200"})
    assert empty.code == 0
    assert "ssb-hard" in empty.out


def test_the_real_digits_are_the_originals(data_root: Path) -> None:
    for name, split in (
        ("mnist", "test"),
        ("fashion-mnist", "test"),
        ("notmnist", "test"),
        ("negatives", "test"),
    ):
        found = locate(name, split, data_root, verify=True)
        assert found.detail == "10,000 samples, listing as the original", (name, found.detail)
