"""Pictures in Parquet: bytes, as Hugging Face writes them, or where they are; read in runs, from any row."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from theodolite.core.errors import FormatError, InputError, UnreadableImageError
from theodolite.data import open_source
from theodolite.data.sample import labels_of
from theodolite.features.folders import holds_features
from theodolite.features.listing import listed

pyarrow = pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'theodolite[parquet]'")

ROWS = 150


def encoded(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 5, 3), np.uint8)
    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, "png")
    return kept.getvalue()


def write(path: Path, columns: Mapping[str, Sequence[object]], group: int = 40) -> Path:
    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)
    return path


def test_rows_come_from_any_place_whatever_the_groups(tmp_path: Path) -> None:
    contents = [encoded(row) for row in range(ROWS)]
    for name, start, stop in (("a", 0, 70), ("b", 70, ROWS)):
        write(
            tmp_path / f"{name}.parquet",
            {"image": contents[start:stop], "label": [row % 3 for row in range(start, stop)]},
        )
    source = open_source(tmp_path)
    assert len(source) == ROWS
    assert not holds_features(tmp_path / "a.parquet")
    assert len(open_source(tmp_path / "*.parquet")) == ROWS
    places = [*range(ROWS), 3, 149, 0, 69, 70, 41, 40]
    for other in (source, pickle.loads(pickle.dumps(source))):
        for place in places:
            sample = other[place]
            expected = np.asarray(Image.open(io.BytesIO(contents[place])))
            np.testing.assert_array_equal(np.asarray(sample.image), expected)
            assert sample.label == place % 3
            assert sample.id == (f"a.parquet#{place}" if place < 70 else f"b.parquet#{place - 70}")
    assert labels_of(source) == [row % 3 for row in range(ROWS)]
    assert [*source.listing_of(range(68, 73))] == [*source.listing()][68:73]  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        source[ROWS]


def test_a_column_of_places_and_one_of_hugging_face(tmp_path: Path) -> None:
    files = []
    for row in range(3):
        (tmp_path / f"{row}.png").write_bytes(encoded(row))
        files.append(str(tmp_path / f"{row}.png"))
    one = open_source(write(tmp_path / "places.parquet", {"uri": [*files[:2], f"file://{files[2]}", "gone"]}))
    structs: list[object] = [{"bytes": encoded(row), "path": f"{row}.png"} for row in range(3)]
    two = open_source(write(tmp_path / "hub.parquet", {"image": structs, "id": ["x", "y", "z"]}))
    for row in range(3):
        np.testing.assert_array_equal(np.asarray(one[row].image), np.asarray(two[row].image))
    assert [one[row].id for row in range(2)] == files[:2]
    assert [two[row].id for row in range(3)] == ["x", "y", "z"]
    with pytest.raises(UnreadableImageError, match="gone cannot be read"):
        one[3]
    assert listed(one).contents[:3].tolist() == listed(two).contents.tolist(), "the same pictures"


def test_a_row_that_is_no_picture_is_named(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "bad.parquet", {"image": [encoded(0), b"no picture", None]}))
    for row in (1, 2):
        with pytest.raises(UnreadableImageError, match=f"bad.parquet#{row} cannot be read"):
            source[row]


def test_tables_without_pictures_are_features_or_refused(tmp_path: Path) -> None:
    features = write(tmp_path / "features.parquet", {"features": [[0.5, 1.0]], "path": ["a"]})
    assert holds_features(features)
    with pytest.raises(InputError, match="no column of pictures"):
        open_source(features)
    write(tmp_path / "z.parquet", {"image": [encoded(0)]})
    with pytest.raises(InputError, match="no column of pictures"):
        open_source(tmp_path)
    (tmp_path / "features.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FormatError, match="not a readable Parquet file"):
        open_source(tmp_path)
