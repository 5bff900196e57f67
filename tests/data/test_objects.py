"""Data sets in memory: torch and Hugging Face."""

from collections.abc import Iterator
from pathlib import Path

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

from theodolite.core.errors import InputError, UnreadableImageError
from theodolite.data import ImageSource, as_picture, open_source

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)


def pixels(source: ImageSource, index: int) -> np.ndarray:
    return np.asarray(as_picture(source[index].image))


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


class Broken(Dictionaries):
    def __getitem__(self, index: int) -> dict[str, object]:
        raise OSError(f"image file {index} is truncated")


def test_pictures_a_dataset_cannot_read_are_named() -> None:
    with pytest.raises(UnreadableImageError, match=r"sample 1 cannot be read.*truncated"):
        _ = open_source(Broken())[1]


def test_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="pip install 'theodolite[hub]'")

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
    with pytest.raises(InputError, match="no image or text column; its columns: kind"):
        open_source(dataset.remove_columns("img"))


def test_hub_out_of_reach() -> None:
    pytest.importorskip("datasets", reason="pip install 'theodolite[hub]'")
    with pytest.raises(InputError, match="could not be opened") as caught:
        open_source("hf:nobody/nothing?split=train")
    assert "\n" not in str(caught.value)
