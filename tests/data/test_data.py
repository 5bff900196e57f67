"""Every kind of data opens as what it is, and every kind of damage is named."""

import gzip
import os
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

from theodolite.data import ImageSource, as_picture, open_source
from theodolite.errors import FormatError, InputError, UnreadableImageError

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)


def save(path: Path, index: int = 0, mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(BYTES[index]).convert(mode).save(path)
    return path


def pixels(source: ImageSource, index: int) -> np.ndarray:
    return np.asarray(as_picture(source[index].image))


# ---------------------------------------------------------------------- folders


def test_folder_of_classes(tmp_path: Path) -> None:
    save(tmp_path / "dog" / "b.png", 0)
    save(tmp_path / "cat" / "deep" / "c.PNG", 1)
    save(tmp_path / "cat" / "a.png", 2)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / "empty").mkdir()
    source = open_source(tmp_path)
    assert source.class_names == ("cat", "dog")
    assert [(source[i].id, source[i].label) for i in range(len(source))] == [
        ("cat/a.png", 0),
        ("cat/deep/c.PNG", 0),
        ("dog/b.png", 1),
    ]
    assert np.array_equal(pixels(source, 2), BYTES[0])
    size = (tmp_path / "dog" / "b.png").stat().st_size
    assert list(source.listing())[2] == f"dog/b.png\t1\t{size}"


def test_flat_folder_has_no_labels(tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "c.bmp"):
        save(tmp_path / name)
    source = open_source(str(tmp_path))
    assert [source[i].id for i in range(3)] == ["a.jpg", "b.png", "c.bmp"]
    assert source[0].label is None
    assert source.class_names is None


def test_mixed_folder_is_refused_unless_flat(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "cat" / "b.png")
    with pytest.raises(InputError, match="pictures as well as sub-folders"):
        open_source(tmp_path)
    assert len(open_source(tmp_path, kind="flat")) == 2


def test_splits_are_not_classes(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cat" / "a.png")
    save(tmp_path / "val" / "cat" / "b.png")
    with pytest.raises(InputError, match="holds the splits train, val, not classes"):
        open_source(tmp_path)
    assert open_source(tmp_path / "val").class_names == ("cat",)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no pictures"):
        open_source(tmp_path)


def test_one_picture(tmp_path: Path) -> None:
    assert open_source(save(tmp_path / "a.png"))[0].id == "a.png"


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
def test_modes_become_grey_or_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.tiff" if mode == "CMYK" else "a.png")
    save(path, mode=mode)
    image = open_source(path)[0].image
    assert isinstance(image, Image.Image)
    assert image.mode in ("L", "RGB")


def test_sixteen_bit_grey_is_scaled(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 0x8000, dtype=np.uint16)).save(tmp_path / "a.png")
    assert int(pixels(open_source(tmp_path), 0)[0, 0]) == 128


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "missing"])
def test_unreadable_pictures_are_named(tmp_path: Path, damage: str) -> None:
    path = save(tmp_path / "cat.jpg")
    source = open_source(tmp_path)
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"truncated": content[: len(content) // 2], "empty": b"", "text": b"hello"}[damage])
    with pytest.raises(UnreadableImageError, match=r"cat\.jpg cannot be read as an image") as caught:
        _ = source[0]
    assert "--skip-unreadable" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.path == str(path)


def test_unreadable_survives_a_worker_process(tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"")
    loader = DataLoader(_as_dataset(open_source(tmp_path)), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(UnreadableImageError, match=r"cat\.jpg"):
        next(iter(loader))


def _as_dataset(source: ImageSource) -> Any:
    return source


# ---------------------------------------------------------------------- lists


def test_list_file_as_openood_has_them(tmp_path: Path) -> None:
    save(tmp_path / "data" / "images" / "test set" / "a.png", 3)
    save(tmp_path / "data" / "images" / "b.png")
    path = tmp_path / "data" / "lists" / "cifar10" / "test.txt"
    path.parent.mkdir(parents=True)
    path.write_text("images/test set/a.png 7\n\nimages/b.png -1\nimages/b.png\n")
    source = open_source(path)
    assert [source[i].label for i in range(3)] == [7, None, None]
    assert source[0].id == "images/test set/a.png"
    assert np.array_equal(pixels(source, 0), BYTES[3])


def test_list_with_a_root(tmp_path: Path) -> None:
    save(tmp_path / "elsewhere" / "a.png")
    (tmp_path / "list.txt").write_text("a.png 0")
    assert len(pixels(open_source(tmp_path / "list.txt", root=tmp_path / "elsewhere"), 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png -2", "line 1: label -2 is out of range"),
        ("a.png cat", "'cat' is not a label"),
        ("", "no pictures"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        open_source(tmp_path / "list.txt")


def test_binary_list(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        open_source(tmp_path / "list.txt")


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (idx(BYTES[..., 0])[:-7], "is damaged: its header promises"),
        (idx(np.arange(5, dtype=np.uint8)), "1-dimensional data, not images"),
        (gzip.compress(idx(BYTES[..., 0]))[:60], "is damaged"),
        (b"\x01\x02\x03\x04", "not an idx file"),
    ],
)
def test_damaged_idx(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / ("x-idx3-ubyte.gz" if content[:2] == b"\x1f\x8b" else "x-idx3-ubyte")
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        open_source(path, kind="idx")


def test_real_mnist() -> None:
    folder = os.environ.get("THEODOLITE_DATA")
    if not folder:
        pytest.skip("THEODOLITE_DATA is not set")
    source = open_source(Path(folder) / "fashion-mnist" / "t10k-images-idx3-ubyte.gz")
    assert len(source) == 10_000
    assert {source[i].label for i in range(100)} == set(range(10))


# ---------------------------------------------------------------------- CIFAR


def cifar(folder: Path, *, names: bool = True) -> Path:
    folder.mkdir()
    data = RNG.integers(0, 256, (4, 3072), dtype=np.uint8)
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        batch = {b"data": data, b"labels": [0, 1, 2, 1], b"batch_label": b"x"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    if names:
        (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a", b"b", b"c"]}, protocol=2))
    return folder


def test_cifar_batches(tmp_path: Path) -> None:
    folder = cifar(tmp_path / "cifar-10-batches-py")
    test = open_source(folder / "test_batch")
    assert (len(test), test.class_names, test[3].label) == (4, ("a", "b", "c"), 1)
    raw = pickle.loads((folder / "test_batch").read_bytes())[b"data"][3]
    assert np.array_equal(pixels(test, 3), raw.reshape(3, 32, 32).transpose(1, 2, 0))
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


# ---------------------------------------------------------------------- objects


class Dictionaries(Dataset[dict[str, object]]):
    classes = ("a", "b")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"image": Image.fromarray(BYTES[index]), "label": np.int64(index)}


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


def test_torch_datasets() -> None:
    images = torch.from_numpy(BYTES).permute(0, 3, 1, 2)
    source = open_source(TensorDataset(images, torch.arange(5)))
    assert np.array_equal(pixels(source, 2), BYTES[2])
    assert source[2].label == 2
    assert len(set(source.listing())) == 5
    floats = open_source(TensorDataset(images / 255))
    assert isinstance(floats[0].image, torch.Tensor)
    assert floats[0].label is None
    dictionaries = open_source(Dictionaries())
    assert (dictionaries.class_names, dictionaries[1].label) == (("a", "b"), 1)
    assert open_source(source) is source


def test_data_loaders() -> None:
    dataset = TensorDataset(torch.from_numpy(BYTES).permute(0, 3, 1, 2), torch.arange(5))
    assert len(open_source(DataLoader(Subset(dataset, [1, 3]), batch_size=2, shuffle=True))) == 2
    with pytest.raises(InputError, match="draws with a WeightedRandomSampler"):
        open_source(DataLoader(dataset, sampler=WeightedRandomSampler([1.0] * 5, 5)))


@pytest.mark.parametrize("value", [7, Stream()])
def test_objects_without_length_and_index(value: object) -> None:
    with pytest.raises(InputError, match="no length and index"):
        open_source(value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (("text", 0), "sample 0 is a str"),
        ((torch.randn(3, 4, 4) * 5, 0), "before they are normalised"),
        ((torch.zeros(4, 4, 4), 0), "1 or 3 channels"),
        ((torch.zeros(1, 4, 4, dtype=torch.int64), 0), "expected uint8"),
        ((torch.zeros(1, 4, 4), "cat"), "'cat' is not a whole number"),
        ((), "sample 0 is a NoneType"),
    ],
)
def test_bad_items(item: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _ = open_source([item])[0]


def test_hugging_face(tmp_path: Path) -> None:
    import datasets

    features = datasets.Features({"img": datasets.Image(), "kind": datasets.ClassLabel(names=["x", "y"])})
    rows = {"img": [Image.fromarray(BYTES[i]) for i in range(3)], "kind": [0, 1, 1]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    dataset.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"test": dataset}).save_to_disk(str(tmp_path / "all"))
    for source in (
        open_source(dataset),
        open_source(tmp_path / "one"),
        open_source(tmp_path / "all" / "test"),
    ):
        assert (len(source), source.class_names, source[2].label) == (3, ("x", "y"), 1)
        assert np.array_equal(pixels(source, 1), BYTES[1])
        assert len(list(source.listing())) == 3
    with pytest.raises(InputError, match="several splits: open one, for example"):
        open_source(tmp_path / "all")
    with pytest.raises(InputError, match="no image column; its columns: kind"):
        open_source(dataset.remove_columns("img"))


def test_hub_out_of_reach() -> None:
    with pytest.raises(InputError, match="could not be opened") as caught:
        open_source("hf:nobody/nothing?split=train")
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- paths


def test_unknown_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_source(tmp_path / "nothing")
    (tmp_path / "a.xyz").write_text("?")
    with pytest.raises(InputError, match="none of the known kinds"):
        open_source(tmp_path / "a.xyz")
    with pytest.raises(InputError, match="kind 'zip' is unknown"):
        open_source(tmp_path, kind="zip")
