"""Arrays and idx files: layouts, labels, and what is refused."""

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from theodolite.core.errors import FormatError, InputError
from theodolite.data import ImageSource, as_picture, open_source

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)


def pixels(source: ImageSource, index: int) -> np.ndarray:
    return np.asarray(as_picture(source[index].image))


# ---------------------------------------------------------------------- arrays


def test_npy_with_labels_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", BYTES)
    np.save(tmp_path / "x_labels.npy", np.arange(5))
    source = open_source(tmp_path / "x.npy")
    assert [source[i].label for i in range(5)] == list(range(5))
    assert np.array_equal(pixels(source, 4), BYTES[4])
    assert source[4].id == "x.npy#4"
    before = list(source.listing())
    changed = BYTES.copy()
    changed[2, 0, 0, 0] ^= 1
    np.save(tmp_path / "x.npy", changed)
    after = list(open_source(tmp_path / "x.npy").listing())
    assert [one == two for one, two in zip(before, after, strict=True)] == [True, True, False, True, True]


@pytest.mark.parametrize("layout", ["NHW", "NHWC", "NCHW"])
def test_npz_layouts(tmp_path: Path, layout: str) -> None:
    images = {"NHW": BYTES[..., 0], "NHWC": BYTES, "NCHW": BYTES.transpose(0, 3, 1, 2)}[layout]
    np.savez(tmp_path / "x.npz", images=images, labels=np.arange(5).reshape(5, 1))
    source = open_source(tmp_path / "x.npz")
    assert np.array_equal(pixels(source, 1), BYTES[1, ..., 0] if layout == "NHW" else BYTES[1])
    assert source[1].label == 1


def test_float_arrays_are_tensors(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", BYTES / 255)
    image = open_source(tmp_path / "x.npy")[0].image
    assert isinstance(image, torch.Tensor)
    assert image.shape == (3, 8, 6)
    assert image.dtype == torch.float32
    assert np.array_equal(np.asarray(as_picture(image)), BYTES[0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": np.zeros((5, 4), np.uint8)}, r"images have shape \(5, 4\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8)}, "at least one picture"),
        ({"images": np.zeros((2, 4, 4, 7), np.uint8)}, "1 or 3 channels"),
        ({"images": np.zeros((2, 4, 4), np.int64)}, "dtype int64, expected uint8"),
        ({"images": np.full((2, 4, 4), 3.0)}, "from 3 to 3, expected 0 to 1"),
        ({"images": np.full((2, 4, 4), np.nan)}, "expected 0 to 1"),
        ({"pictures": BYTES}, "holds pictures, but no pictures"),
        ({"images": BYTES, "labels": np.arange(4)}, r"labels have shape \(4,\), expected \(5,\)"),
        ({"images": BYTES, "labels": -np.arange(5)}, "labels run from -4 to 0"),
        ({"images": BYTES, "labels": np.arange(5.0)}, "expected integers"),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message) as caught:
        open_source(tmp_path / "x.npz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_damaged_arrays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x93NUMPY" if name == "x.npy" else b"PK\x03\x04nonsense")
    with pytest.raises(FormatError, match="damaged or not a NumPy file"):
        open_source(tmp_path / name)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(FormatError, match="plain numbers"):
        open_source(tmp_path / "x.npy")


# ---------------------------------------------------------------------- idx


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [True, False])
def test_idx_finds_its_labels(tmp_path: Path, packed: bool) -> None:
    suffix, pack = (".gz", gzip.compress) if packed else ("", bytes)
    (tmp_path / f"t10k-images-idx3-ubyte{suffix}").write_bytes(pack(idx(BYTES[..., 0])))
    (tmp_path / f"t10k-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(np.arange(5, dtype=np.uint8))))
    source = open_source(tmp_path / f"t10k-images-idx3-ubyte{suffix}")
    assert np.array_equal(pixels(source, 3), BYTES[3, ..., 0])
    assert source[3].label == 3
    assert source[3].id == "t10k-images-idx3-ubyte#3"


def test_idx_without_labels(tmp_path: Path) -> None:
    (tmp_path / "letters-images-idx3-ubyte").write_bytes(idx(BYTES[..., 0]))
    assert open_source(tmp_path / "letters-images-idx3-ubyte")[0].label is None


def test_idx_beside_its_own_archive_has_no_labels(tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(BYTES[..., 0]))
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(BYTES[..., 0])))
    for name in ("t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"):
        assert open_source(tmp_path / name)[0].label is None


def test_an_archive_is_unpacked_no_further_than_its_header_promises(tmp_path: Path) -> None:
    bomb = tmp_path / "x-images-idx3-ubyte.gz"
    bomb.write_bytes(gzip.compress(idx(BYTES[..., 0]) + bytes(300 * 2**20), compresslevel=1))
    tracemalloc.start()
    with pytest.raises(FormatError, match="but more follow"):
        open_source(bomb)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(BYTES[..., 0])[:-7], "is damaged: its header promises"),
        (idx(np.arange(5, dtype=np.uint8)), "1-dimensional data, not images"),
        (gzip.compress(idx(BYTES[..., 0]), mtime=0)[:60], "is damaged"),
        (b"\x01\x02\x03\x04", "not an idx file"),
        (bytes((0, 0, 8, 3)) + b"\xff" * 12 + bytes(100), "is damaged: its header promises"),
    ],
    ids=["cut", "labels", "cut archive", "other bytes", "huge header"],
)
def test_damaged_idx(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / ("x-idx3-ubyte.gz" if content[:2] == b"\x1f\x8b" else "x-idx3-ubyte")
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        open_source(path, kind="idx")


def test_real_mnist(data_root: Path) -> None:
    source = open_source(data_root / "fashion-mnist" / "t10k-images-idx3-ubyte.gz")
    assert len(source) == 10_000
    assert {source[i].label for i in range(100)} == set(range(10))
