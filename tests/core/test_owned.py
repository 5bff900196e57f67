"""What is sealed is read once and owned: no write to its file reaches what was loaded."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import made_guards
import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import FormatError, InputError, TheodoliteError
from theodolite.core.files import read_tensors, write_tensors
from theodolite.core.owned import read_owned
from theodolite.guard import Guard

PROBLEM = make_problem()
KINDS = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


def overwrite(path: Path, other: Path) -> None:
    """As `cp other path` does: the same inode, new content."""
    shutil.copyfile(other, path)


def truncate(path: Path, _other: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.parametrize("change", [overwrite, truncate])
@pytest.mark.parametrize("name", ["ora", "knn", "mds"])
def test_a_loaded_detector_does_not_change_with_its_file(
    name: str, change: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    live, other = tmp_path / "live", tmp_path / "other"
    th.create(name).fit(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head).save(live)
    th.create(name).fit(PROBLEM.train + 3, PROBLEM.labels, head=PROBLEM.head).save(other)
    detector = th.load(live)
    before = detector.score(PROBLEM.test)
    change(live, other)
    torch.testing.assert_close(detector.score(PROBLEM.test), before, rtol=0, atol=0)


@pytest.mark.parametrize("change", [overwrite, truncate])
def test_a_loaded_guard_does_not_change_with_its_file(
    change: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    features, _ = made_guards.clusters(200, 1)
    made_guards.fitted().save(tmp_path / "live")
    train, labels = made_guards.clusters(4_000, 0)
    Guard.fit(train + 2, labels, head=made_guards.head(), detector=th.ORA()).save(tmp_path / "other")
    guard = Guard.load(tmp_path / "live")
    before = guard.verdicts(features)
    change(tmp_path / "live", tmp_path / "other")
    after = guard.verdicts(features)
    for one, two in zip(before, after, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_every_kind_of_tensor_comes_back(tmp_path: Path) -> None:
    written = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in KINDS}
    written |= {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4), "last": torch.zeros(3, 0)}
    write_tensors(tmp_path / "f", written, {"format": "kinds/1"})
    read, description = read_tensors(tmp_path / "f", "kinds/1")
    assert description == {"format": "kinds/1"}
    assert read.keys() == written.keys()
    for name, tensor in read.items():
        assert tensor.dtype == written[name].dtype
        assert torch.equal(tensor, written[name])


HEADERS: list[object] = [
    [],
    3,
    {"x": 3},
    {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
    {"x": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
    {"x": {"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]}},
    {"x": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}},
    {"x": {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}},
    {"x": {"dtype": "F7", "shape": [2], "data_offsets": [0, 8]}},
    {"x": {"dtype": "F32", "shape": [2**61], "data_offsets": [0, 2**63]}},
    {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0]}},
    {"x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}},
    {"x": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}},
    {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
     "y": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
    {"__metadata__": {"theodolite": 3}, "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
    {"__metadata__": [], "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=json.dumps)
def test_a_header_that_lies_is_refused(header: object, tmp_path: Path) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "f").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(FormatError, match="is not a readable safetensors file"):
        read_owned(tmp_path / "f")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 3) + b"{}",
        struct.pack("<Q", 2) + b"\xff\xff",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        struct.pack("<Q", 5_010) + b'{"x": ' + b"9" * 5_003 + b"}",
    ],
    ids=range(7),
)
def test_what_is_no_header_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FormatError, match="is not a readable safetensors file"):
        read_owned(tmp_path / "f")


def test_a_claim_larger_than_the_file_takes_no_memory(tmp_path: Path) -> None:
    text = json.dumps({"x": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}).encode()
    (tmp_path / "f").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(FormatError, match="is not a readable safetensors file"):
        read_owned(tmp_path / "f")


def test_every_cut_and_every_changed_byte_of_a_detector_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "detector"
    th.MSP().fit(head=th.Head(torch.randn(2, 3))).save(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(TheodoliteError):
            th.load(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(TheodoliteError):
            th.load(path)


def test_other_writers_files_are_read_alike(tmp_path: Path) -> None:
    """Metadata and tensors in any order, and padding of the header, as safetensors allows."""
    tensors: dict[str, Tensor] = {name: torch.randn(3, 5) for name in "cab"}
    save_file(tensors, tmp_path / "f", {"more": "than", "one": "entry"})
    read, metadata = read_owned(tmp_path / "f")
    assert metadata == {"more": "than", "one": "entry"}
    assert all(torch.equal(read[name], tensors[name]) for name in "cab")


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_owned(tmp_path / "absent")
    with pytest.raises(InputError, match="no such file"):
        read_owned(tmp_path)
