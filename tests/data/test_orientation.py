"""EXIF orientation: pictures are seen as they are meant to be, in every format and mode that says so."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from theodolite.data import as_picture, open_source
from theodolite.data.orientation import orientation, upright

# Eight pixels that all differ: no turn leaves them as they are.
PIXELS = (np.arange(8, dtype=np.uint8) * 30).reshape(2, 4)


def save(path: Path, value: int | None, image: Image.Image | None = None) -> Path:
    exif = Image.Exif()
    if value is not None:
        exif[0x0112] = value
    lossless: dict[str, Any] = {"lossless": True} if path.suffix == ".webp" else {}
    (image or Image.fromarray(PIXELS)).save(path, exif=exif, **lossless)
    return path


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_all_eight_orientations(tmp_path: Path, value: int, suffix: str) -> None:
    """What `exif_transpose` of Pillow does is the truth; TIFF files it turns when they are read."""
    path = save(tmp_path / f"a{suffix}", value)
    image = as_picture(open_source(path)[0].image)
    picture = Image.fromarray(PIXELS)
    picture.getexif()[0x0112] = value
    truth = np.asarray(ImageOps.exif_transpose(picture))
    assert np.array_equal(np.asarray(upright(image).convert("L")), truth)
    assert upright(image).size == ((2, 4) if value >= 5 else (4, 2))
    assert orientation(upright(image)) == 1
    if suffix != ".tif":
        assert orientation(image) == value
        assert np.array_equal(np.asarray(image.convert("L")), PIXELS), "as stored, until it is turned"


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "I;16", "1", "LA"])
def test_every_mode_keeps_what_is_said(tmp_path: Path, mode: str) -> None:
    image = (
        Image.fromarray(PIXELS.astype(np.uint16) * 256)
        if mode == "I;16"
        else Image.fromarray(PIXELS).convert(mode)
    )
    path = save(tmp_path / "a.png", 6, image)
    found = as_picture(open_source(path)[0].image)
    assert orientation(found) == 6
    assert upright(found).size == (2, 4)


@pytest.mark.parametrize("value", [None, 0, 1, 9, 250])
def test_pictures_that_say_nothing_stay_as_they_are(tmp_path: Path, value: int | None) -> None:
    image = as_picture(open_source(save(tmp_path / "a.png", value))[0].image)
    assert orientation(image) == 1
    assert upright(image) is image


def test_damaged_words_about_a_picture_do_not_damage_it(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xffgarbage")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Pillow's own
        image = as_picture(open_source(tmp_path / "a.jpg")[0].image)
    assert upright(image).size == (4, 2)
