"""Parquet tables as they are met: labels of any type, ids that repeat, damaged pages; no foreign error."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from theodolite.core.errors import FormatError, InputError, TheodoliteWarning
from theodolite.data import open_source
from theodolite.data.sample import labels_of
from theodolite.features.arrays import open_array
from theodolite.features.folders import holds_features

pa = pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'theodolite[parquet]'")

MATRIX = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
NUMBERS = [0, 1, 2, 0, 1, 2]


def write(path: Path, columns: Mapping[str, Any], **how: Any) -> Path:
    parquet.write_table(pa.table(columns), path, **how)
    return path


def features(path: Path, **columns: Any) -> Path:
    return write(path / "rows.parquet", {"features": list(MATRIX), **columns})


def picture(seed: int) -> bytes:
    kept = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 16, 3), np.uint8)
    Image.fromarray(pixels).save(kept, "png")
    return kept.getvalue()


# ------------------------------------------------------------------ features


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint32", "int64", "uint64"])
def test_labels_are_whole_numbers_of_any_size(kind: str, tmp_path: Path) -> None:
    array = open_array(features(tmp_path, label=pa.array(NUMBERS, kind)))
    assert array.labels is not None
    assert array.labels.tolist() == NUMBERS
    missing = open_array(features(tmp_path, label=pa.array([None, *NUMBERS[1:]], kind)))
    assert missing.labels is None


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["cat"] * 6, "labels are string"),
        ([True] * 6, "labels are bool"),
        ([0.5] * 6, "labels are double"),
        ([2**63] * 6, "out of range"),
    ],
)
def test_other_labels_are_refused(labels: list[object], told: str, tmp_path: Path) -> None:
    kind = pa.uint64() if labels[0] == 2**63 else None
    with pytest.raises(InputError, match=told):
        open_array(features(tmp_path, label=pa.array(labels, kind)))
    if labels[0] == "cat":
        with pytest.raises(InputError, match="labels are dictionary"):
            open_array(features(tmp_path, label=pa.array(labels).dictionary_encode()))


def spoilt(path: Path) -> Path:
    """The same file, with a damaged page; its footer is as it was."""
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    return path


def test_a_damaged_page_is_told_of(tmp_path: Path) -> None:
    table = {f"d{column}": MATRIX[:, column].repeat(1000) for column in range(4)}
    array = open_array(spoilt(write(tmp_path / "rows.parquet", table)))
    with pytest.raises(FormatError, match=r"rows\.parquet is damaged"):
        list(array.blocks())
    pictures = write(tmp_path / "pictures.parquet", {"image": [picture(row) for row in range(80)]})
    source = open_source(spoilt(pictures))
    for _ in range(2):
        with pytest.raises(FormatError, match=r"pictures\.parquet is damaged"):
            source[3]


# ------------------------------------------------------------------ pictures


def test_pictures_whose_bytes_lie_elsewhere(tmp_path: Path) -> None:
    """As Hugging Face writes them: a struct with a path alone."""
    (tmp_path / "a.png").write_bytes(picture(0))
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([{"bytes": None, "path": str(tmp_path / "a.png")}, {"bytes": picture(0)}], kind)
    source = open_source(write(tmp_path / "hub.parquet", {"image": cells}))
    np.testing.assert_array_equal(np.asarray(source[0].image), np.asarray(source[1].image))


def test_places_of_pictures_beside_a_column_of_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(0))
    path = write(tmp_path / "places.parquet", {"uri": [str(tmp_path / "a.png")], "width": [16.0]})
    assert not holds_features(path)
    assert np.asarray(open_source(path)[0].image).shape == (16, 16, 3)


@pytest.mark.parametrize("labels", [["cat", "dog"], [0.0, 1.0], [[1], [2]]])
def test_a_column_of_labels_that_is_none_is_warned_of(labels: list[object], tmp_path: Path) -> None:
    table = {"image": [picture(0), picture(1)], "label": labels}
    with pytest.warns(TheodoliteWarning, match="labels are whole numbers: the pictures have none"):
        source = open_source(write(tmp_path / "pictures.parquet", table))
    assert labels_of(source) == [None, None]


@pytest.mark.parametrize("across", [False, True])
def test_a_column_that_calls_rows_the_same_is_no_id(across: bool, tmp_path: Path) -> None:
    """Held out by such ids, a share would be whole classes; also if every file counts anew."""
    names = ["x", "y"] if across else ["x", "x"]
    for number in range(2):
        table = {"image": [picture(0), picture(1)], "name": names if across or number else ["u", "v"]}
        write(tmp_path / f"{number}.parquet", table)
    with pytest.warns(TheodoliteWarning, match="calls several rows 'x'"):
        source = open_source(tmp_path)
    assert [source[row].id for row in range(4)] == [
        f"{file}.parquet#{row}" for file in (0, 1) for row in (0, 1)
    ]


def test_ids_of_pictures_that_are_distinct_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", {"image": [picture(0)] * 3, "name": ["x", None, None]})
    source = open_source(tmp_path)
    assert [source[row].id for row in range(3)] == ["x", "a.parquet#1", "a.parquet#2"]
