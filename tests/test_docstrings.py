"""Every public name has an example in its docstring, and the example gives what it shows."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from docstring_examples import ON_RAY, example_of, failures, public
from theodolite.detectors import _registry

ONNX = ("load_exported", "ExportedGuard")  # the second opens the file that the first one wrote


def test_every_public_name_has_an_example_of_its_own() -> None:
    without = [name for name in public() if not example_of(name).examples]
    assert without == []
    silent = [name for name in public() if not any(example.want for example in example_of(name).examples)]
    assert set(silent) <= {"collect"}, "an example shows what it gives"
    longest = max(public(), key=lambda name: len(example_of(name).examples))
    assert len(example_of(longest).examples) <= 8, longest


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples may write files, and enter a score: nothing of it stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for table in ("_records", "_by_spelling"):
        monkeypatch.setattr(_registry, table, dict(getattr(_registry, table)))


@pytest.mark.usefixtures("own_folder")
def test_the_examples_give_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for name in public():
        if name not in (*ON_RAY, *ONNX):
            Path(name).mkdir()
            with monkeypatch.context() as patch:
                patch.chdir(name)
                said.append(failures(name))
    assert not any(said), "".join(said)


@pytest.mark.usefixtures("own_folder", "operators_once")
def test_the_examples_of_exported_guards_give_what_they_show() -> None:
    if find_spec("onnxruntime") is None:
        pytest.skip("pip install 'theodolite[onnx]'")
    said = "".join(failures(name) for name in ONNX)
    assert not said, said
