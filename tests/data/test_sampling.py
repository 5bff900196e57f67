"""A limit: every class in proportion, always the same samples, of whatever kind of data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import TensorDataset

from theodolite.core.errors import InputError
from theodolite.data import open_source
from theodolite.data.part import part_of
from theodolite.data.sample import labels_of
from theodolite.data.sampling import sample_of, sampled_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Classes a to e of 10, 20, 30, 40 and 100 pictures."""
    for name, count in zip("abcde", (10, 20, 30, 40, 100), strict=True):
        (tmp_path / name).mkdir()
        for index in range(count):
            Image.new("L", (4, 4), index).save(tmp_path / name / f"{index:03d}.png")
    return tmp_path


def test_every_class_of_a_folder_has_its_share(folder: Path) -> None:
    """The first 40 samples would be those of a, b and a third of c."""
    source = open_source(folder)
    sample = sample_of(source, 40)
    assert Counter(labels_of(sample)) == {0: 2, 1: 4, 2: 6, 3: 8, 4: 20}
    ids = [sample[index].id for index in range(40)]
    assert ids == sorted(ids)
    assert sample.class_names == source.class_names
    assert [line.split("\t")[0] for line in sample.listing()] == ids
    assert [ids[index].split("/")[1] for index in range(2)] != ["000.png", "001.png"]


def test_the_sample_is_the_same_every_time_and_another_by_its_seed(folder: Path) -> None:
    rows = [list(sample_of(open_source(folder), 50, seed).listing()) for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]
    # Kept samples of every machine and version depend on these numbers.
    assert sampled_rows([0] * 6 + [1] * 6, 4) == [2, 3, 7, 8]


def test_no_limit_and_one_beyond_the_data_leave_it_whole(folder: Path) -> None:
    source = open_source(folder)
    assert sample_of(source, None) is sample_of(source, 200) is sample_of(source, 999) is source
    for limit in (0, -3):
        with pytest.raises(InputError, match=f"limit must be at least 1, got {limit}"):
            sample_of(source, limit)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 300), st.integers(0, 2**31))
def test_shares_are_right_up_to_one_sample(sizes: list[int], limit: int, seed: int) -> None:
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    rows = sampled_rows(labels, limit, seed)
    assert len(set(rows)) == min(limit, len(labels))
    counts = Counter(labels[row] for row in rows)
    for label, size in enumerate(sizes):
        if limit < len(labels):
            assert abs(counts[label] - size * limit / len(labels)) < 1


def test_every_sample_has_the_same_chance() -> None:
    """Over 2,000 seeds; 20 of 100 rows in classes of 3, 47 and 50."""
    labels = [0] * 3 + [1] * 47 + [2] * 50
    counts = np.zeros(100)
    for seed in range(2_000):
        counts[sampled_rows(labels, 20, seed)] += 1
    deviation = (counts - 400) / np.sqrt(2_000 * 0.2 * 0.8)
    assert np.abs(deviation).max() < 4.5


def test_fewer_samples_than_classes_are_of_classes_from_all_over() -> None:
    labels = [label for label in range(1_000) for _ in range(5)]
    chosen = {labels[row] for row in sampled_rows(labels, 100)}
    assert len(chosen) == 100
    assert min(chosen) < 20
    assert max(chosen) > 980


def test_unlabelled_data_is_one_class(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((500, 4, 4), dtype=np.uint8))
    rows = [int(sample_of(open_source(tmp_path / "x.npy"), 100)[i].id.split("#")[1]) for i in range(100)]
    assert len(set(rows)) == 100
    assert 150 < np.median(rows) < 350


def test_labels_of_every_kind_of_data(tmp_path: Path) -> None:
    images, labels = np.zeros((6, 4, 4), dtype=np.uint8), np.arange(6) % 2
    np.savez(tmp_path / "x.npz", images=images, labels=labels)
    tensors = TensorDataset(torch.zeros(6, 1, 4, 4), torch.from_numpy(labels))
    datasets = pytest.importorskip("datasets", reason="pip install 'theodolite[hub]'")
    features = datasets.Features({"img": datasets.Image(), "kind": datasets.ClassLabel(names=["x", "y"])})
    rows = {"img": [Image.fromarray(image) for image in images], "kind": labels.tolist()}
    for value in (tmp_path / "x.npz", tensors, datasets.Dataset.from_dict(rows, features=features)):
        source = open_source(value)
        assert labels_of(source) == [0, 1, 0, 1, 0, 1]
        assert Counter(labels_of(sample_of(source, 2))) == {0: 1, 1: 1}


def test_a_sample_of_a_part_lies_in_the_part(folder: Path) -> None:
    part = part_of(open_source(folder), "2/2")
    sample = sample_of(part, 10)
    inside = {part[index].id for index in range(len(part))}
    assert {sample[index].id for index in range(10)} <= inside
