"""CIFAR batches are read, and pickles that are none are not run."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.errors import FormatError, InputError
from theodolite.data import ImageSource, as_picture, open_source

RNG = np.random.default_rng(0)
DATA = RNG.integers(0, 256, (4, 3072), dtype=np.uint8)


def pixels(source: ImageSource, index: int) -> np.ndarray:
    return np.asarray(as_picture(source[index].image))


def cifar(folder: Path) -> Path:
    """Batches as the original files have them, down to the module names of an old NumPy."""
    folder.mkdir()
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        batch = {b"data": DATA, b"labels": [0, 1, 2, 1], b"batch_label": b"x"}
        content = pickle.dumps(batch, protocol=2).replace(b"numpy._core", b"numpy.core")
        (folder / name).write_bytes(content)
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a", b"b", b"c"]}, protocol=2))
    return folder


def test_cifar_batches(tmp_path: Path) -> None:
    folder = cifar(tmp_path / "cifar-10-batches-py")
    test = open_source(folder / "test_batch")
    assert (len(test), test.class_names, test[3].label) == (4, ("a", "b", "c"), 1)
    assert np.array_equal(pixels(test, 3), DATA[3].reshape(3, 32, 32).transpose(1, 2, 0))
    assert len(open_source(folder / "data_batch_*")) == 8


def test_cifar_100(tmp_path: Path) -> None:
    batch = {"data": RNG.integers(0, 256, (2, 3072), dtype=np.uint8), "fine_labels": [1, 0]}
    (tmp_path / "test").write_bytes(pickle.dumps(batch))
    (tmp_path / "meta").write_bytes(pickle.dumps({"fine_label_names": [b"apple", b"bear"]}))
    source = open_source(tmp_path / "test")
    assert (source.class_names, source[0].label) == (("apple", "bear"), 1)


def test_cifar_folder_asks_for_a_part(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training and test pictures: open .*test_batch"):
        open_source(cifar(tmp_path / "cifar"))


def test_cifar_label_out_of_range(tmp_path: Path) -> None:
    folder = cifar(tmp_path / "cifar")
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a", b"b"]}))
    with pytest.raises(InputError, match=r"labels run from 0 to 2, expected 0\.\.1"):
        open_source(folder / "test_batch")


class Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("/nonexistent/never",)


@pytest.mark.parametrize("content", [Runs(), {b"data": Runs()}, {b"data": 1}, [1, 2]])
def test_pickles_that_are_no_cifar_batch(tmp_path: Path, content: object) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content))
    with pytest.raises(FormatError, match="CIFAR batch"):
        open_source(tmp_path / "test_batch")


def test_damaged_cifar(tmp_path: Path) -> None:
    folder = cifar(tmp_path / "cifar")
    (folder / "test_batch").write_bytes((folder / "test_batch").read_bytes()[:500])
    with pytest.raises(FormatError, match="fetch the original archive again"):
        open_source(folder / "test_batch")
