"""`python:module:factory`: models of one's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model_checks import assert_works
from theodolite.core.errors import InputError, ModelError
from theodolite.models import load_model

FACTORY = """
import torch
from torch import nn

def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))

def with_preprocess():
    return plain(), lambda image: torch.zeros(3, 8, 8)

def wrong():
    return 7

value = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_models.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    return "their_models"


def test_python_factory(module: str) -> None:
    loaded = load_model(f"python:{module}:plain?size=8&mean=0.5,0.5,0.5")
    assert loaded.input_shape == (3, 8, 8)
    assert "mean=(0.5, 0.5, 0.5)" in loaded.preprocess_id
    assert_works(loaded, 4)


def test_python_factory_with_its_own_preprocess(module: str) -> None:
    loaded = load_model(f"python:{module}:with_preprocess")
    assert " at 0x" not in loaded.preprocess_id
    assert_works(loaded, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong", "returned int, expected an nn.Module"),
        ("absent", "cannot be imported"),
        ("value", "expected a function"),
    ],
)
def test_python_factory_mistakes(module: str, name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(f"python:{module}:{name}")


@pytest.mark.parametrize("query", ["mean=a", "mean=1,2", "size=big"])
def test_python_factory_options(module: str, query: str) -> None:
    with pytest.raises(InputError, match=f"option {query[:4]}|mean and std"):
        load_model(f"python:{module}:plain?{query}")


def test_python_factory_is_known_by_its_code(module: str, tmp_path: Path) -> None:
    """Comments and layout are the same code, another preprocess is not, though its name and weights are."""

    def known_as(text: str) -> str:
        (tmp_path / f"{module}.py").write_text(text)
        sys.modules.pop(module, None)
        return load_model(f"python:{module}:with_preprocess").preprocess_id

    first = known_as(FACTORY)
    assert known_as("# a comment\n" + FACTORY) == first
    assert known_as(FACTORY.replace("torch.zeros(3, 8, 8)", "torch.ones(3, 8, 8)")) != first


def test_python_factory_that_imports_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process where nobody has opened the door to torchvision yet."""
    (tmp_path / "sees.py").write_text("import torchvision\n" + FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    code = "from theodolite.models import load_model; load_model('python:sees:plain?size=8')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_python_without_a_function() -> None:
    with pytest.raises(InputError, match="must have the form"):
        load_model("python:json")
