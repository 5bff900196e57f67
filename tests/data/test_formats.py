"""The registry of formats: who answers first, and a format that somebody else wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_server import run
from theodolite.core.errors import InputError
from theodolite.data import ImageSource, Sample, as_picture, data_format, formats, list_formats, open_source
from theodolite.features.store import FeatureStore

IDX = bytes((0, 0, 8, 3)) + bytes((0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4)) + bytes(32)
CLINC150 = ["clinc150-train", "clinc150-val", "clinc150-test", "clinc150-oos", "clinc150"]
PICTURES = ["folder", "flat", "image", "list", "npy", "npz", "idx", "cifar", "parquet"]
KINDS = [*PICTURES, "jsonl", "csv", "text", "saved", *CLINC150]

TOY_MODULE = '''
"""Two grey levels a line, one picture of 8×8 each; the label is their order."""

from pathlib import Path

import numpy as np

from theodolite.data import ImageSource, data_format
from theodolite.data.stacks import ImageStack


@data_format("toy", title="a toy", suffixes=(".toy",))
def open_toy(path: Path) -> ImageSource:
    lines = [[int(level) for level in line.split()] for line in path.read_text().splitlines()]
    images = np.array([[[first] * 8] * 4 + [[second] * 8] * 4 for first, second in lines], dtype=np.uint8)
    return ImageStack(path.name, images, np.array([int(first < second) for first, second in lines]))
'''


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test enters is gone after it."""
    monkeypatch.setattr(formats, "_formats", dict(formats._formats))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: None) -> Iterator[Path]:  # noqa: ARG001
    """A file of a format from outside the package, whose module is imported as a user's would be."""
    (tmp_path / "my_format.py").write_text(TOY_MODULE, encoding="utf-8")
    (tmp_path / "data.toy").write_text("10 20\n250 4\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("my_format")
    yield tmp_path / "data.toy"
    del sys.modules["my_format"]


class OneGrey:
    """The smallest source: one picture."""

    class_names = None

    def __init__(self, level: int) -> None:
        self.level = level

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Sample:
        return Sample(Image.new("L", (2, 2), self.level), None, str(index))

    def listing(self) -> Iterator[str]:
        yield f"0\t-\t{self.level}"


# ---------------------------------------------------------------------- formats of others


def test_a_format_from_outside_is_opened_by_suffix_and_by_kind(toy: Path) -> None:
    for source in (
        open_source(toy),
        open_source(toy.rename(toy.with_suffix(".TOY"))),
        open_source(toy.with_suffix(".TOY").rename(toy.with_name("noname")), kind="toy"),
    ):
        assert [source[index].label for index in range(len(source))] == [1, 0]
        assert np.array_equal(np.asarray(as_picture(source[1].image))[3:5, 0], [250, 4])


def test_errors_name_a_format_from_outside(toy: Path) -> None:
    with pytest.raises(InputError, match=f"kind 'zip' is unknown; known: {', '.join([*KINDS, 'toy'])}$"):
        open_source(toy, kind="zip")
    (toy.parent / "a.xyz").write_text("?")
    with pytest.raises(
        InputError, match=r"one a line \(\.txt\), CLINC150's data_full\.json, a toy\. If it is one"
    ) as caught:
        open_source(toy.parent / "a.xyz")
    assert str(caught.value).endswith(f"(kind= in Python) {', '.join([*KINDS, 'toy'])}")
    with pytest.raises(InputError, match="is a folder, but kind 'toy' is a file"):
        open_source(toy.parent, kind="toy")


def test_the_command_opens_a_format_from_outside(toy: Path) -> None:
    model = "python:small_models:Tiny?size=8&mean=0&std=1"
    arguments = ("extract", "--model", model, "--data", toy.name, "-o", "store", "--workers", "0")
    done = run("--import", "my_format", *arguments, folder=toy.parent)
    assert done.code == 0, done.err
    store = FeatureStore(toy.parent / "store")
    assert store.shard(0).labels.tolist() == [1, 0]


@pytest.mark.usefixtures("registry")
def test_a_folder_of_another_format_is_not_taken_for_pictures(tmp_path: Path) -> None:
    @data_format("boxed", place="folder", content=lambda path: (path / "box.json").is_file())
    def open_boxed(path: Path) -> ImageSource:
        return OneGrey(len(path.name))

    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    assert isinstance(open_source(tmp_path), type(open_source(tmp_path, kind="folder")))
    (tmp_path / "box.json").touch()
    assert isinstance(open_source(tmp_path), OneGrey)
    with pytest.raises(InputError, match=r"a\.png is not a folder, which kind 'boxed' asks for"):
        open_source(tmp_path / "a.png", kind="boxed")


@pytest.mark.usefixtures("registry")
def test_a_rooted_format_gets_the_root(tmp_path: Path) -> None:
    @data_format("rooted", suffixes=(".rooted",), rooted=True)
    def open_rooted(_: Path, *, root: Path | None = None) -> ImageSource:
        return OneGrey(0 if root is None else len(root.name))

    (tmp_path / "x.rooted").touch()
    assert list(open_source(tmp_path / "x.rooted").listing()) == ["0\t-\t0"]
    assert list(open_source(tmp_path / "x.rooted", root="four").listing()) == ["0\t-\t4"]


@pytest.mark.usefixtures("registry")
def test_a_kind_belongs_to_one_module() -> None:
    def enter_here() -> None:
        data_format("mine")(OneGrey)

    with pytest.raises(InputError, match=r"'npz' is taken by theodolite\.data\.stacks"):
        data_format("npz")(OneGrey)
    enter_here()
    enter_here()  # as when a cell of a notebook runs again
    assert [entry.kind for entry in list_formats()] == [*KINDS, "mine"]


# ---------------------------------------------------------------------- who answers first


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("data_batch_1.png", "cifar"),  # a name goes before a suffix
        ("test_batch", "cifar"),
        ("a.PNG", "image"),  # a suffix goes before what the file holds
        ("a.npy", "npy"),
        ("a.npz", "npz"),
        ("a.txt", "list"),
        ("a.lst", "list"),
        ("a.list", "list"),
        ("a.bin", "idx"),
    ],
)
def test_files_are_asked_by_name_then_suffix_then_content(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / path).write_bytes(IDX)
    found = formats.recognise(tmp_path / path)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (("batches.meta", "state.json", "a.png"), "cifar"),
        (("meta",), "cifar"),
        (("state.json", "a.png"), "saved"),
        (("dataset_dict.json",), "saved"),
        (("a.png",), None),  # whatever no format claims is a folder of pictures
        ((), None),
    ],
)
@pytest.mark.parametrize("name", ["folder", "folder.png", "folder.npy"])
def test_folders(tmp_path: Path, name: str, files: tuple[str, ...], kind: str | None) -> None:
    (tmp_path / name).mkdir()
    for file in files:
        (tmp_path / name / file).write_bytes(IDX)
    found = formats.recognise(tmp_path / name)
    assert (None if found is None else found.kind) == kind


def test_a_path_that_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("?")
    with pytest.raises(InputError) as caught:
        open_source(tmp_path / "a.xyz")
    assert str(caught.value) == (
        f"{tmp_path / 'a.xyz'} is none of the known kinds of data: a folder of pictures, a picture, a list "
        f"(.txt with `path label` lines), .npy, .npz, idx, a CIFAR batch, Parquet with a column of pictures, "
        f"texts in .jsonl, texts in .csv, texts, one a line (.txt), CLINC150's data_full.json. If it is one, "
        f"say which: --kind (kind= in Python) {', '.join(KINDS)}"
    )
