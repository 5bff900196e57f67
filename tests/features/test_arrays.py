"""Features in files: every format gives the same rows, and what is no feature is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from numpy.lib import format as npy
from pyarrow import parquet
from safetensors.torch import save_file

from theodolite import Head
from theodolite.core.errors import FormatError, InputError
from theodolite.data import bounds
from theodolite.features import save_probe
from theodolite.features.arrays import FeatureArray, open_array
from theodolite.features.folders import feature_sets, holds_features, is_feature_folder
from theodolite.features.head_files import head_digest, read_head

ROWS, WIDTH = 2_500, 6
RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)
TARGETS = RNG.integers(0, 4, ROWS)


def write(folder: Path, form: str) -> Path:
    """The same features in each of the forms."""
    path = folder / f"rows.{form.partition('-')[0]}"
    if form == "npy":
        np.save(path, MATRIX)
        np.save(folder / "rows_labels.npy", TARGETS)
    elif form == "npz":
        np.savez_compressed(path, features=MATRIX, labels=TARGETS)
    elif form == "safetensors":
        save_file({"features": torch.from_numpy(MATRIX), "labels": torch.from_numpy(TARGETS)}, path)
    elif form == "parquet-lists":
        table = {"label": TARGETS, "features": list(MATRIX), "note": ["x"] * ROWS}
        parquet.write_table(pyarrow.table(table), path, row_group_size=700)
    elif form == "parquet-fixed":
        rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(MATRIX.reshape(-1)), WIDTH)
        parquet.write_table(pyarrow.table({"embedding": rows, "labels": TARGETS}), path)
    else:
        columns = {f"f{place}": MATRIX[:, place] for place in range(WIDTH)}
        parquet.write_table(pyarrow.table({**columns, "label": TARGETS}), path)
    return path


FORMS = ("npy", "npz", "safetensors", "parquet-lists", "parquet-fixed", "parquet-columns")


def rows_of(array: FeatureArray) -> tuple[np.ndarray, np.ndarray]:
    blocks = list(array.blocks(700))
    labels = [block.labels for block in blocks if block.labels is not None]
    return torch.cat([block.features for block in blocks]).numpy(), torch.cat(labels).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form)
    array = open_array(path)
    features, labels = rows_of(array)
    np.testing.assert_array_equal(features, MATRIX)
    np.testing.assert_array_equal(labels, TARGETS)
    assert (len(array), array.width, array.labelled) == (ROWS, WIDTH, True)
    names = [name for block in array.blocks(999) for name in block.names]
    assert names[17] == f"{path.name}#17"
    assert len(set(names)) == ROWS
    assert holds_features(path)
    ids = torch.cat([ids for _, _, ids in array if ids is not None])
    assert len(set(ids.tolist())) == ROWS


def test_ids_of_the_file_name_its_rows(tmp_path: Path) -> None:
    own = np.array([f"patient-{row}" for row in range(ROWS)])
    np.savez(tmp_path / "a.npz", features=MATRIX, ids=own)
    parquet.write_table(pyarrow.table({"id": own, "features": list(MATRIX)}), tmp_path / "a.parquet")
    for path in sorted(tmp_path.iterdir()):
        assert next(open_array(path).blocks()).names[3] == "patient-3"
        assert not open_array(path).labelled
    np.savez(tmp_path / "twice.npz", features=MATRIX, ids=np.zeros(ROWS, dtype=int))
    with pytest.raises(InputError, match="name a row twice"):
        open_array(tmp_path / "twice.npz")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.zeros((8, 28, 28), dtype=np.uint8), False),
        (np.zeros((8, 28, 28, 3), dtype=np.float32), False),
        (np.zeros((8, 28), dtype=np.float16), True),
    ],
)
def test_shape_and_dtype_tell_pictures_from_features(
    tmp_path: Path, values: np.ndarray, expected: bool
) -> None:
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", values)
    np.savez(tmp_path / "images.npz", images=values)
    assert holds_features(tmp_path / "a.npy") is expected
    assert holds_features(tmp_path / "a.npz") is expected
    assert not holds_features(tmp_path / "images.npz")
    assert holds_features(tmp_path / "a.npy", "features")
    assert not holds_features(tmp_path / "a.npy", "pictures")
    assert not holds_features(tmp_path / "a.npy", "npy")


def test_integers_in_rows_are_neither(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((8, 784), dtype=np.uint8))
    with pytest.raises(InputError, match=r"uint8.*neither.*astype\('float32'\)"):
        holds_features(tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"uint8.*floating-point"):
        open_array(tmp_path / "a.npy")


@pytest.mark.parametrize("shape", [(8,), (8, 2, 2), (0, 4), (4, 0)])
def test_other_shapes_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(shape))
    with pytest.raises(InputError, match=r"expected features of shape \(N, D\)"):
        open_array(tmp_path / "a.npy")


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for number, labels in enumerate((TARGETS[:-1], TARGETS.astype(float), TARGETS - 2, TARGETS + 2**40)):
        np.savez(tmp_path / f"{number}.npz", features=MATRIX, labels=labels)
        with pytest.raises(InputError, match="labels"):
            open_array(tmp_path / f"{number}.npz")
    np.savez(tmp_path / "some.npz", features=MATRIX, labels=TARGETS - 1)
    assert not open_array(tmp_path / "some.npz").labelled


def test_parquet_of_other_columns_is_refused(tmp_path: Path) -> None:
    tables = {
        "whole numbers": {"a": MATRIX[:, 0], "age": TARGETS},
        "texts": {"a": MATRIX[:, 0], "town": ["x"] * ROWS},
        "two types": {"a": MATRIX[:, 0], "b": MATRIX[:, 1].astype(np.float64)},
        "lists of whole numbers": {"features": list(np.stack([TARGETS, TARGETS], 1))},
        "labels alone": {"label": TARGETS},
    }
    for name, table in tables.items():
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet")
        with pytest.raises(InputError, match=r"features"):
            open_array(tmp_path / f"{name}.parquet")
    ragged = pyarrow.table({"features": [[1.0, 2.0], [1.0], [1.0, 2.0]]})
    parquet.write_table(ragged, tmp_path / "ragged.parquet")
    with pytest.raises(InputError, match="row 1 of features has 1 numbers"):
        list(open_array(tmp_path / "ragged.parquet"))


def test_bombs_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files that would become large: an archive of zeros, a header that lies, columns of zeros."""
    monkeypatch.setattr(bounds, "UNPACKED", 2**20)
    zeros = np.zeros((2_000, 512), dtype=np.float32)
    np.savez_compressed(tmp_path / "zeros.npz", features=zeros)
    columns = {f"f{place}": np.zeros(200_000) for place in range(3)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "zeros.parquet")
    for name in ("zeros.npz", "zeros.parquet"):
        with pytest.raises(FormatError, match="would unpack to"):
            open_array(tmp_path / name)
    with (tmp_path / "lies.npy").open("wb") as file:
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**10)})
    with pytest.raises(FormatError, match="its header promises"):
        open_array(tmp_path / "lies.npy")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".safetensors"])
def test_damaged_files_are_our_own_errors(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(b"PK\x03\x04 no such thing" * 9)
    with pytest.raises((FormatError, InputError)):
        open_array(tmp_path / f"a{suffix}")
    whole = write(tmp_path, {".parquet": "parquet-lists"}.get(suffix, suffix[1:]))
    content = whole.read_bytes()
    (tmp_path / f"half{suffix}").write_bytes(content[: len(content) // 2])
    with pytest.raises((FormatError, InputError)):
        open_array(tmp_path / f"half{suffix}")


def test_no_pickle_is_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "features.npy")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FormatError, match="not plain numbers"):
            open_array(tmp_path / name)


def test_heads_in_files(tmp_path: Path) -> None:
    head = Head(torch.randn(4, WIDTH), torch.randn(4))
    save_probe(head, tmp_path / "probe.safetensors")
    save_file({"weight": head.weight, "bias": head.bias}, tmp_path / "plain.safetensors")
    save_file({"fc.weight": head.weight}, tmp_path / "other.safetensors")
    for name in ("probe", "plain"):
        found = read_head(tmp_path / f"{name}.safetensors")
        assert found.equals(head)
        assert head_digest(found) == head_digest(head)
    with pytest.raises(FormatError, match=r"fc\.weight"):
        read_head(tmp_path / "other.safetensors")
    damaged = bytearray((tmp_path / "probe.safetensors").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "probe.safetensors").write_bytes(damaged)
    with pytest.raises(FormatError, match="damaged"):
        read_head(tmp_path / "probe.safetensors")


def test_feature_folders(tmp_path: Path) -> None:
    assert not is_feature_folder(tmp_path)
    for name in ("zebra", "id_fit", "id_test"):
        save_file({"features": torch.from_numpy(MATRIX)}, tmp_path / f"{name}.safetensors")
    save_file({"weight": torch.ones(2, WIDTH)}, tmp_path / "head.safetensors")
    assert is_feature_folder(tmp_path)
    assert list(feature_sets(tmp_path)) == ["id_fit", "id_test", "zebra"]
