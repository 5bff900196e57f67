"""A model of one's own whose code is edited: what it uses counts, nothing else does, and users may know."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from command_server import Outcome
from command_server import run as command
from theodolite.core.errors import InputError
from theodolite.features import extract
from theodolite.guard import Guard, fit_guard

CODE = """
import torch
from torch import nn

SCALE = 1.0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())
        self.fc = nn.Linear(16, 3)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)

    def forward(self, images):
        return self.fc(SCALE * self.body(images))

def make():
    return Net()

def train():
    return "a long story"
"""
MODEL = "python:our_models:make?mean=0&size=8"
OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0"
Edit = Callable[[str, str], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a model, pictures without labels, and a guard fitted on them."""
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "our_models.py").write_text(CODE)
    rng = np.random.default_rng(0)
    for name, count in (("train", 160), ("new", 30), ("other", 40)):
        np.savez(tmp_path / f"{name}.npz", images=rng.integers(0, 256, (count, 8, 8), dtype=np.uint8))
    fitted = fit_guard("train.npz", MODEL, calibration="other.npz")
    fitted.guard.save("guard.safetensors")
    yield tmp_path
    sys.modules.pop("our_models", None)


def edit(old: str, new: str) -> None:
    path = Path("our_models.py")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    sys.modules.pop("our_models", None)


def scores(*, accept_code_change: bool = False) -> list[float | None]:
    guard = Guard.load("guard.safetensors", model=MODEL, accept_code_change=accept_code_change)
    return [row.score for rows in guard.score_paths("new.npz", model=MODEL) for row in rows]


@pytest.mark.usefixtures("folder")
def test_edits_of_what_is_not_used() -> None:
    """Before, any edit of the file but of its comments was refused."""
    before = scores()
    edit("a long story", "a short story")
    edit("def train", "import json\n\ndef more():\n    return json\n\ndef train")
    assert scores() == before


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("old", "new"),
    [("SCALE = 1.0", "SCALE = 2.0"), ("return Net()", "return Net().eval()"), ("nn.Tanh()", "nn.ReLU()")],
)
def test_edits_of_what_is_used_are_refused_until_accepted(old: str, new: str) -> None:
    edit(old, new)
    with pytest.raises(
        InputError, match=r"the code of python:our_models:make\S+ has changed since the guard"
    ):
        scores()
    with pytest.raises(InputError, match=r"--accept-code-change \(accept_code_change=True in Python\)"):
        scores()
    assert len(scores(accept_code_change=True)) == 30


@pytest.mark.usefixtures("folder")
def test_what_is_accepted_is_the_code_alone() -> None:
    edit("randn(parameter.shape, generator=generator) / 4", "randn(parameter.shape, generator=generator)")
    with pytest.raises(InputError, match="are not those the guard was fitted on"):
        scores(accept_code_change=True)
    guard = Guard.load("guard.safetensors", accept_code_change=True)
    with pytest.raises(InputError, match="was fitted on"):
        list(guard.score_paths("new.npz", model=MODEL.replace("size=8", "size=16")))


@pytest.mark.usefixtures("folder")
def test_stores_from_before_and_after() -> None:
    before = extract("new.npz", MODEL, output="before").path
    edit("return Net()", "net = Net()\n    return net")
    after = extract("new.npz", MODEL, output="after").path
    guard = Guard.load("guard.safetensors")
    assert len(guard.score_folder(before)) == 30
    with pytest.raises(InputError, match=r"whose code was another.*--accept-code-change"):
        guard.score_folder(after)
    accepting = Guard.load("guard.safetensors", accept_code_change=True)
    first, second = ([row.score for row in accepting.score_folder(store)] for store in (before, after))
    np.testing.assert_allclose(np.array(first, float), np.array(second, float))
    later = extract("other.npz", MODEL, output="later").path
    with pytest.raises(InputError, match=r"code changed in between.*--accept-code-change"):
        fit_guard(before, calibration=later)
    assert fit_guard(before, calibration=later, accept_code_change=True).fitted_on == 30


def test_the_commands(folder: Path) -> None:
    def run(*words: str) -> Outcome:
        return command(
            *words, folder=folder, env={"COLUMNS": "120", "THEODOLITE_CACHE": str(folder / "cache")}
        )

    edit("return Net()", "net = Net()\n    return net")
    score = ("score", "guard.safetensors", "new.npz", "--model", MODEL)
    refused = run(*score)
    assert refused.code == 2
    assert "pass --accept-code-change" in refused.err
    assert run(*score, "--accept-code-change").code == 0
    assert run("extract", "--model", MODEL, "--data", "other.npz", "-o", "later").code == 0
    (kept,) = [
        path for path in (folder / "cache").iterdir() if "train.npz" in (path / "manifest.json").read_text()
    ]
    fit = ("fit", "--data", str(kept), "--calibration-data", "later", "-o", "again.safetensors")
    assert "--accept-code-change" in run(*fit).err
    assert run(*fit, "--accept-code-change").code == 0


# ---------------------------------------------------------------------- guards of 0.1.0


@pytest.fixture
def of_0_1_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The model of the old guards in a file of its own, and pictures; the guards know the file as it was."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "small_models.py").write_text((OLD / "small_models.txt").read_text())
    known = sys.modules.pop("small_models", None)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "new.npz", images=rng.integers(0, 256, (20, 8, 8), dtype=np.uint8))
    yield tmp_path
    sys.modules.pop("small_models", None)
    if known is not None:
        sys.modules["small_models"] = known


def old_scores(folder: Path, *, accept_code_change: bool = False) -> list[float | None]:
    model, path = "python:small_models:Tiny?mean=0&size=8", sorted(OLD.glob("guard-*.safetensors"))[0]
    guard = Guard.load(path, model=model, accept_code_change=accept_code_change)
    return [row.score for rows in guard.score_paths(folder / "new.npz", model=model) for row in rows]


def test_an_old_guard_and_its_file_as_it_was(of_0_1_0: Path) -> None:
    assert len(old_scores(of_0_1_0)) == 20


def test_an_old_guard_whose_file_has_changed_says_what_it_cannot_know(of_0_1_0: Path) -> None:
    before = old_scores(of_0_1_0)
    path = of_0_1_0 / "small_models.py"
    path.write_text(path.read_text() + "\n\ndef added():\n    return 1\n")
    sys.modules.pop("small_models", None)
    with pytest.raises(
        InputError, match=r"of version 0\.1\.0, knows it by its whole file, which has changed"
    ):
        old_scores(of_0_1_0)
    with pytest.raises(
        InputError, match=r"pass --accept-code-change .*else fit again, and only what they use"
    ):
        old_scores(of_0_1_0)
    assert old_scores(of_0_1_0, accept_code_change=True) == before
