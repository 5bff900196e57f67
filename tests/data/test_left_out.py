"""Files of a folder that are no pictures: counted, named, and recognised by content where no suffix says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from theodolite.core.errors import InputError, MissingExtraError, TheodoliteWarning
from theodolite.data import heif, open_source
from theodolite.data.left_out import describe_left_out, left_out_of, warn_left_out

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)


@pytest.fixture
def without_heif(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heif, "readable", lambda: frozenset())


def save(path: Path, kind: str = "PNG") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(PIXELS).save(path, format=kind)
    return path


@pytest.mark.usefixtures("without_heif")
def test_everything_that_is_dropped_is_named(tmp_path: Path) -> None:
    for name in ("cat/a.png", "cat/b.png", "dog/c.png"):
        save(tmp_path / name)
    for name in ("cat/film.mp4", "cat/deep/photo.HEIC", "dog/README", "bird/x.heic", "list.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"no picture by its first bytes")
    (tmp_path / "fish").mkdir()
    (tmp_path / "dog" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "dog" / "more").symlink_to(tmp_path / "cat", target_is_directory=True)
    os.mkfifo(tmp_path / "dog" / "pipe.png")
    (tmp_path / "cat" / ".hidden").mkdir()
    save(tmp_path / "cat" / ".hidden" / "a.png")
    source = open_source(tmp_path)
    assert source.class_names == ("cat", "dog")
    assert [source[index].id for index in range(3)] == ["cat/a.png", "cat/b.png", "dog/c.png"]
    extra = "read after pip install 'theodolite[heif]'"
    assert dict(left_out_of(source)) == {
        "bird/": "folder without pictures",
        "bird/x.heic": f"suffix .heic, {extra}",
        "cat/deep/photo.HEIC": f"suffix .heic, {extra}",
        "cat/film.mp4": "suffix .mp4",
        "dog/README": "no suffix, and no picture by its content",
        "dog/gone.png": "link to nothing",
        "dog/more": "link to a folder, not followed",
        "dog/pipe.png": "no plain file",
        "fish/": "folder without pictures",
        "list.txt": "suffix .txt",
    }
    flat = open_source(tmp_path, kind="flat")
    assert {name for name, _ in left_out_of(flat)} == {
        name for name, _ in left_out_of(source) if not name.endswith("/")
    }


def test_what_is_left_out_is_said_with_numbers_and_first_names(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    for index in range(5):
        (tmp_path / f"{index}.mp4").touch()
    (tmp_path / "b.txt").touch()
    source = open_source(tmp_path)
    assert describe_left_out(left_out_of(source)) == (
        "suffix .mp4: 5 (0.mp4, 1.mp4, 2.mp4, …); suffix .txt: 1 (b.txt)"
    )
    with pytest.warns(TheodoliteWarning, match=r"pictures: 6 entries are left out \(suffix \.mp4: 5"):
        warn_left_out(source, "pictures")
    warn_left_out(open_source(tmp_path / "a.png"), "one picture")


@pytest.mark.usefixtures("without_heif")
def test_a_folder_of_nothing_else_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.heic").touch()
    with pytest.raises(InputError, match=r"holds no pictures; .*suffix \.heic, read after pip install"):
        open_source(tmp_path)
    with pytest.raises(MissingExtraError, match=r"a\.heic is a picture that pillow-heif reads.*\[heif\]"):
        open_source(tmp_path / "a.heic")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_pictures_without_a_suffix_are_known_by_their_content(tmp_path: Path, kind: str) -> None:
    save(tmp_path / "images" / "0123456789abcdef", kind)
    (tmp_path / "images" / "notes").write_bytes(b"BM is how a bitmap begins, and so does this text")
    source = open_source(tmp_path / "images")
    assert len(source) == 1
    assert source[0].id == "0123456789abcdef"
    assert left_out_of(source)[0].name == "notes"
    assert len(open_source(tmp_path / "images" / "0123456789abcdef")) == 1


def test_raw_photographs_are_not_taken_for_the_tiff_files_they_begin_as(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "b.dng", "TIFF")
    assert left_out_of(open_source(tmp_path)) == (("b.dng", "suffix .dng"),)


@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_pictures_of_phones_are_read_with_the_extra(tmp_path: Path, kind: str) -> None:
    plugin = pytest.importorskip("pillow_heif", reason="pip install 'theodolite[heif]'")
    plugin.register_heif_opener()
    picture = Image.fromarray(np.full((32, 48, 3), (200, 30, 30), dtype=np.uint8))
    picture.save(tmp_path / f"a.{kind}", format="HEIF" if kind == "heic" else "AVIF", quality=90)
    (tmp_path / "b").write_bytes((tmp_path / f"a.{kind}").read_bytes())
    source = open_source(tmp_path)
    assert [source[index].id for index in range(2)] == [f"a.{kind}", "b"]
    for index in range(2):
        pixels = np.asarray(source[index].image, dtype=int)
        assert pixels.shape == (32, 48, 3)
        assert np.abs(pixels - (200, 30, 30)).max() < 12


@pytest.mark.skipif(sys.platform != "linux", reason="folders without permission, as root may enter them")
def test_a_folder_that_may_not_be_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "cat" / "a.png")
    save(tmp_path / "dog" / "closed" / "b.png")
    save(tmp_path / "dog" / "c.png")
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    source = open_source(tmp_path)
    assert len(source) == 2
    assert left_out_of(source) == (("dog/closed/", "cannot be opened (Permission denied)"),)
