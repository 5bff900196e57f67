"""Exported files: what they say of themselves, and that a damaged, foreign or hostile one is refused."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import theodolite as th
from command_server import run
from made_guards import WIDTH, clusters, fitted
from theodolite.core.errors import FormatError, InputError, StorageError
from theodolite.guard import Guard
from theodolite.guard.exported import read_record

onnx = pytest.importorskip("onnx", reason="pip install 'theodolite[onnx]'")
pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
pytestmark = pytest.mark.usefixtures("operators_once")

NAMES = ("cat", "dog", "eel", "fox", "gnu")


@pytest.fixture(scope="module")
def guard() -> Guard:
    return fitted(1_000, class_names=NAMES)


@pytest.fixture(scope="module")
def files(guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    for name in ("guard.onnx", "guard.pt2"):
        guard.export(folder / name, check=clusters(64, 5)[0])
    return folder


@pytest.fixture(params=["guard.onnx", "guard.pt2"])
def file(request: pytest.FixtureRequest, files: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(files / request.param, tmp_path / request.param))


def test_what_it_says_of_itself(guard: Guard, file: Path) -> None:
    loaded = th.load_exported(file, trust=True)
    assert (loaded.takes, loaded.width, loaded.class_names) == ("features", WIDTH, NAMES)
    assert loaded.class_name(2) == "eel"
    assert loaded.false_alarm_rate == guard.false_alarm_rate
    np.testing.assert_array_equal(loaded.calibration.scores, guard.calibration.scores)
    record = loaded.record
    assert (record.score, record.shape, record.origin) == ("ora", (None, WIDTH), guard.origin)
    assert record.options["centre"] == "mean"
    assert record.versions.theodolite == th.__version__
    real = [one for one in record.compared if one.inputs == "real"]
    assert [one.rows for one in real] == [64]
    assert real[0].score_difference < 1e-5


def test_arrays_and_tensors_in_any_number(guard: Guard, file: Path) -> None:
    loaded = th.load_exported(file, trust=True, threads=1)
    rows, _ = clusters(5_000, 9, spread=2.0)
    expected = guard.verdicts(rows)
    found = loaded.verdicts(rows)
    assert isinstance(found.is_ood, torch.Tensor)
    assert torch.equal(found.is_ood, torch.as_tensor(expected.is_ood))
    one = loaded.verdicts(rows[:1].numpy().astype(np.float64))
    assert isinstance(one.p_value, np.ndarray)
    assert one.p_value[0] == float(torch.as_tensor(expected.p_value)[0])


def test_inputs_that_are_refused(file: Path) -> None:
    loaded = th.load_exported(file, trust=True)
    rows = clusters(4, 9)[0].numpy()
    with pytest.raises(InputError, match="width 3"):
        loaded.verdicts(rows[:, :3])
    with pytest.raises(InputError, match="floating-point"):
        loaded.verdicts(rows.astype(np.int64))
    with pytest.raises(InputError, match="is empty"):
        loaded.verdicts(rows[:0])
    with pytest.raises(InputError, match="cannot support a false-alarm rate of 1e-05"):
        loaded.verdicts(rows, false_alarm_rate=1e-5)
    with pytest.raises(InputError, match="prepares no pictures: the file takes features"):
        loaded.prepare(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no class -1"):
        loaded.class_name(-1)
    rows[2, 3] = np.nan
    assert np.asarray(loaded.verdicts(rows).unscorable).tolist() == [False, False, True, False]
    with pytest.raises(InputError, match="no score in row 2"):
        loaded.verdicts(rows, unscorable="raise")


def test_a_program_must_be_trusted(files: Path) -> None:
    """PyTorch unpickles what lies in it; the description is read without."""
    with pytest.raises(InputError, match="trust=True"):
        th.load_exported(files / "guard.pt2")
    assert read_record(files / "guard.pt2").takes == "features"


@pytest.mark.parametrize("place", [0.02, 0.3, 0.5, 0.8, 0.999])
def test_a_changed_byte_is_noticed(file: Path, place: float) -> None:
    content = bytearray(file.read_bytes())
    if file.suffix == ".pt2":  # of an entry: what lies between them nobody reads
        with zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if entry.file_size > 0]
        entry = entries[int(place * len(entries))]
        name = content.index(entry.filename.encode(), entry.header_offset) + len(entry.filename)
        extra = int.from_bytes(content[entry.header_offset + 28 : entry.header_offset + 30], "little")
        content[name + extra + entry.file_size // 2] ^= 0x10
    else:
        content[int(place * len(content))] ^= 0x10
    file.write_bytes(content)
    with pytest.raises(FormatError):
        th.load_exported(file, trust=True)


def test_other_files_are_refused(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    for damage in (b"", b"\0" * 300, content[: len(content) // 2], content + b"\n", b"PK\x03\x04" + content):
        file.write_bytes(damage)
        if damage[:2] == b"PK" and file.suffix == ".pt2":
            continue  # bytes before an archive are allowed
        with pytest.raises(FormatError):
            th.load_exported(file, trust=True)
    with pytest.raises(InputError, match="no such file"):
        th.load_exported(tmp_path / f"nothing{file.suffix}", trust=True)


def test_a_foreign_graph_and_one_with_other_files_are_refused(files: Path, tmp_path: Path) -> None:
    model = onnx.load(files / "guard.onnx")
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "foreign.onnx")
    with pytest.raises(FormatError, match="not an exported guard, or has been changed"):
        th.load_exported(tmp_path / "foreign.onnx")
    from theodolite.guard.export.onnx_file import _sealed

    model = onnx.load(files / "guard.onnx")
    largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    onnx.external_data_helper.set_external_data(largest, "weights.bin")
    largest.ClearField("raw_data")
    del model.metadata_props[-1]
    body = model.SerializeToString()
    (tmp_path / "split.onnx").write_bytes(body + _sealed(body))
    with pytest.raises(FormatError, match="tensors in other files"):
        th.load_exported(tmp_path / "split.onnx")


def test_a_graph_that_is_not_what_it_says_is_refused(files: Path, tmp_path: Path) -> None:
    """Sealed, and made by hand: the description of another calibration, or of other outputs."""
    from theodolite.guard.export.onnx_file import _sealed

    for said, instead, problem in (
        ('"takes":"features"', '"takes":"images"', "not what it says of itself"),
        ('"count":', '"count":1', r"scores, not 1\d+"),
        ('"scores":"', '"scores":"!', "is damaged"),
        ('"format":"theodolite-export/1"', '"format":"theodolite-export/9"', "expected theodolite-export/1"),
        ('"width":16', '"width":"wide"', "must be a whole number"),
    ):
        model = onnx.load(files / "guard.onnx")
        del model.metadata_props[-1]
        assert said in model.metadata_props[0].value
        model.metadata_props[0].value = model.metadata_props[0].value.replace(said, instead, 1)
        body = model.SerializeToString()
        (tmp_path / "other.onnx").write_bytes(body + _sealed(body))
        with pytest.raises(FormatError, match=problem):
            th.load_exported(tmp_path / "other.onnx")


def test_any_onnx_tool_reads_it(files: Path) -> None:
    model = onnx.load(files / "guard.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [given.name for given in model.graph.input] == ["features", "false_alarm_rate"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 18
    assert {entry.key for entry in model.metadata_props} == {"theodolite.json", "theodolite.sha256"}


def test_nothing_is_left_where_it_cannot_be_written(guard: Guard, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        guard.export(tmp_path / "missing" / "guard.pt2")


def test_the_command_on_a_model_of_ones_own(tmp_path: Path) -> None:
    """Pictures to compare on; a model that swallows infinity, which the graph flags all the same."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for index in range(120):
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / f"images/{index}.png")
    guard, wide = (
        tmp_path / "guard.safetensors",
        {"COLUMNS": "200", "THEODOLITE_CACHE": str(tmp_path / "cache")},
    )
    model = ("--model", "python:small_models:Tiny?mean=0&size=8")
    fit = ("fit", *model, "--data", tmp_path / "images", "--detector", "energy", "-o", guard)
    made = run(*fit, "--calibration-share", "0.5", env=wide)
    assert made.code == 0, made.err
    refused = run("export", guard, tmp_path / "guard.onnx", env=wide)
    assert refused.code == 2
    assert "code that would be run" in refused.err
    done = run("export", guard, tmp_path / "guard.onnx", *model, "--check", tmp_path / "images", env=wide)
    assert done.code == 0, done.err
    assert "takes images (N, 1, 8, 8)" in done.out
    assert "Warning" not in done.err
    assert "pictures are prepared outside the graph, as" in done.out
    assert json.loads((tmp_path / "guard.preprocess.json").read_text())["pixels"]["size"] == 8
    loaded = th.load_exported(tmp_path / "guard.onnx")
    spoilt = np.zeros((2, 1, 8, 8), dtype=np.float32)
    spoilt[1, 0, 2, 3] = np.inf
    assert np.asarray(loaded.verdicts(spoilt).unscorable).tolist() == [False, True]


def test_the_command_and_inspect(guard: Guard, files: Path, tmp_path: Path) -> None:
    guard.save(tmp_path / "guard.safetensors")
    np.save(tmp_path / "real.npy", clusters(50, 4)[0].numpy())
    wide = {"COLUMNS": "200"}
    stored, real = tmp_path / "guard.safetensors", tmp_path / "real.npy"
    done = run("export", stored, tmp_path / "guard.pt2", "--check", real, env=wide)
    assert done.code == 0, done.err
    assert "nearly degenerate" in done.out
    assert "the guard knows no model: the graph takes features" in done.out
    assert "takes features (N, 16), gives logits, predicted, score, p_value, is_ood" in done.out
    assert "Warning" not in done.err
    for file, count in ((tmp_path / "guard.pt2", 50), (files / "guard.onnx", 64)):
        shown = run("inspect", file, env=wide)
        assert "exported guard" in shown.out
        assert "cat | dog | eel | fox | gnu" in shown.out
        assert f"{count} real: scores within" in shown.out
    refused = run("export", stored, tmp_path / "x.onnx", "--from", "images", env=wide)
    assert refused.code == 2
    assert "does not know its model" in refused.err
