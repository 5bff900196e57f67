"""Fitted files: what is refused, and that options travel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import FormatError, InputError, StorageError
from theodolite.core.files import read_json, write_bytes


def test_options_and_cosine_heads_travel(tmp_path: Path) -> None:
    problem = make_problem()
    head = th.Head.cosine(problem.head.weight)
    detector = th.ORA(centre="target", aggregate="mean").fit(problem.train, problem.labels, head=head)
    detector.save(tmp_path / "ora.safetensors")
    again = th.load(tmp_path / "ora.safetensors")
    assert again.options() == detector.options()
    assert again.options()["centre"] == "target"
    torch.testing.assert_close(again.score(problem.test), detector.score(problem.test), rtol=0, atol=0)


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        th.load(tmp_path / "absent")
    (tmp_path / "noise").write_bytes(b"not safetensors at all")
    with pytest.raises(FormatError, match="not a readable safetensors file"):
        th.load(tmp_path / "noise")
    save_file({"x": torch.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(FormatError, match="was not written by theodolite"):
        th.load(tmp_path / "foreign")
    save_file({"x": torch.zeros(2)}, tmp_path / "future", {"theodolite": json.dumps({"format": "later/9"})})
    with pytest.raises(FormatError, match="has format 'later/9'"):
        th.load(tmp_path / "future")


def test_spellings_and_unknown_names() -> None:
    assert isinstance(th.create("Max_Logit"), th.MaxLogit)
    assert isinstance(th.create("fDBD"), th.FDBD)
    assert th.list_detectors("m*") == sorted(name for name in th.list_detectors() if name.startswith("m"))
    with pytest.raises(InputError, match="no detector is called 'orra'; did you mean 'ora'"):
        th.create("orra")
    with pytest.raises(InputError, match=r"ora: .*unexpected keyword argument 'k'"):
        th.create("ora", k=3)


def test_data_free_scores_need_only_the_head() -> None:
    problem = make_problem()
    logits = problem.head(problem.test)
    torch.testing.assert_close(th.MSP().fit(head=problem.head).score(problem.test), logits.softmax(1).amax(1))
    with pytest.raises(InputError, match="features are missing: ORA needs mean"):
        th.ORA().fit(head=problem.head)
    with pytest.raises(InputError, match="MSP needs a head"):
        th.MSP().fit()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"format": ' + "9" * 5_000 + "}", "a number of 5,000 digits"),
        ('{"format": -' + "9" * 4_000 + "}", "a number of 4,001 digits"),
        ('{"format": ', "Expecting value"),
        (b'{"format": "\xff"}', "utf-8"),
        ("", "Expecting value"),
    ],
)
def test_json_is_read_within_bounds(tmp_path: Path, text: str | bytes, reason: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(FormatError, match=reason) as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    if isinstance(text, str):
        save_file({"x": torch.zeros(2)}, tmp_path / "header", {"theodolite": text})
        with pytest.raises(FormatError, match=reason):
            th.load(tmp_path / "header")


def test_json_files_have_a_largest_size(tmp_path: Path) -> None:
    with (tmp_path / "file.json").open("wb") as file:
        file.truncate(2**28 + 1)
    with pytest.raises(FormatError, match="too large to be read: 268,435,457 bytes"):
        read_json(tmp_path / "file.json")


@pytest.mark.parametrize("path", ["", ".", "..", "/", "/.."])
def test_a_place_without_a_name_is_no_file(path: str) -> None:
    with pytest.raises(StorageError, match=r"that is a folder\. Remedy: name a file"):
        write_bytes(Path(path), b"")
