"""Folders, lists and single pictures, and every kind of damage to them."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch._utils import ExceptionWrapper

from theodolite.core.errors import InputError, UnreadableImageError
from theodolite.data import ImageSource, as_picture, files, open_source
from theodolite.data.part import part_of

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
    content = (tmp_path / "dog" / "b.png").read_bytes()
    digest = hashlib.blake2b(content, digest_size=12).hexdigest()
    assert list(source.listing())[2] == f"dog/b.png\t1\t{len(content)}:{digest}"


def test_a_listing_tells_pictures_of_the_same_size_apart(tmp_path: Path) -> None:
    lines: list[str] = []
    for name, size, value in (("a", 8, 60), ("b", 8, 200), ("c", 300, 60), ("d", 300, 200)):
        picture = np.full((size, size), value, dtype=np.uint8)
        (tmp_path / name).mkdir()
        Image.fromarray(picture).save(tmp_path / name / "x.bmp")
        lines += open_source(str(tmp_path / name)).listing()
    assert len(set(lines)) == 4
    assert lines[0].split(":")[0] == lines[1].split(":")[0]
    assert lines[2].split(":")[0] == lines[3].split(":")[0]


def test_a_part_looks_at_its_own_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcdefgh":
        save(tmp_path / f"{name}.png", ord(name) % 5)
    whole = open_source(str(tmp_path))
    looked: list[str] = []

    def look(paths: Iterable[Path]) -> Iterator[str]:
        for path in paths:
            looked.append(path.name)
            yield "content"

    monkeypatch.setattr(files, "contents_of_files", look)
    part = part_of(whole, "3/4")
    assert [part[i].id for i in range(len(part))] == ["e.png", "f.png"]
    assert len(list(part.listing())) == 2
    assert looked == ["e.png", "f.png"]
    for text in ("0/4", "5/4", "1/9", "half"):
        with pytest.raises(InputError, match="part"):
            part_of(whole, text)


def test_hidden_folders_hold_no_samples(tmp_path: Path) -> None:
    for name in ("cat/a.png", "cat/.ipynb_checkpoints/a.png", "dog/b.png"):
        save(tmp_path / name)
    assert len(open_source(str(tmp_path))) == 2
    assert len(open_source(str(tmp_path), kind="flat")) == 2


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
    try:
        _ = open_source(tmp_path)[0]
    except UnreadableImageError:
        wrapper: Any = ExceptionWrapper  # what DataLoader sends home from a worker
        carried = wrapper(where="in a worker")
    with pytest.raises(UnreadableImageError, match=r"cat\.jpg"):
        carried.reraise()


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


# ---------------------------------------------------------------------- paths


def test_unknown_paths(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_source(tmp_path / "nothing")
    (tmp_path / "a.xyz").write_text("?")
    with pytest.raises(InputError, match="none of the known kinds"):
        open_source(tmp_path / "a.xyz")
    with pytest.raises(InputError, match="kind 'zip' is unknown"):
        open_source(tmp_path, kind="zip")


def test_float_pictures_are_scaled_or_refused(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
    for name, factor in (("unit", 1), ("bytes", 255), ("wild", 1e4)):
        Image.fromarray(values * np.float32(factor)).save(tmp_path / f"{name}.tif")
    expected = (values * 255).round()
    for name in ("unit", "bytes"):
        assert np.array_equal(pixels(open_source(tmp_path / f"{name}.tif"), 0), expected)
    with pytest.raises(UnreadableImageError, match="values from 0 to 1e"):
        open_source(tmp_path / "wild.tif")[0]


@pytest.mark.parametrize(
    ("kind", "message"),
    [("list", "is a folder, but kind 'list'"), ("saved", "not written by"), ("idx", "is a folder")],
)
def test_a_kind_that_a_folder_is_not(tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(tmp_path, kind=kind)
    save(tmp_path / "a.png")
    with pytest.raises(InputError, match="is not a folder"):
        open_source(tmp_path / "a.png", kind="folder")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    from theodolite.core.files import read_tensors, write_tensors

    name = os.fsdecode(b"caf\xe9.png")
    save(tmp_path / "pictures" / name)
    source = open_source(str(tmp_path / "pictures"))
    description = {"format": "x/1", "names": [source[0].id]}
    write_tensors(tmp_path / "file", {}, description)
    assert read_tensors(tmp_path / "file", "x/1")[1]["names"] == [name]
