"""Every example runs, warns of nothing, leaves nothing behind, and says what it should."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from example_runner import EXAMPLES, SHOWN, run_example

# What an example needs beyond the core and scikit-learn.
NEEDS = {
    "clip_zero_shot": ("open_clip", "clip"),
    "onnx_export": ("onnxruntime", "onnx"),
    "service_client": ("uvicorn", "serve"),
    "text": ("transformers", "text"),
}
HERE = sorted(
    {*SHOWN} - {"on_ray"}
)  # that one runs beside the other tests of Ray, in tests/guard/test_ray.py


def test_every_example_is_short_and_says_what_to_install() -> None:
    paths = {path.stem: path for path in EXAMPLES.glob("*.py")}
    assert set(paths) == set(SHOWN)
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) < 60, name
        extra = "ray" if name == "on_ray" else NEEDS[name][1] if name in NEEDS else None
        what = "theodolite" if extra is None else rf"'theodolite\[{extra}\]'"
        assert re.search(rf"^Install: pip install {what}( scikit-learn)?$", text, re.MULTILINE), name
        assert ("sklearn" in text) == ("scikit-learn\n" in text), name


@pytest.mark.filterwarnings("ignore:the guard knows no model.*it is served for features")
@pytest.mark.parametrize("name", HERE)
@pytest.mark.usefixtures("operators_once")
def test_it_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if name in NEEDS:
        module, extra = NEEDS[name]
        assert find_spec(module) or pytest.skip(f"pip install 'theodolite[{extra}]'")
    run_example(name, capsys)
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"], "it leaves nothing behind"
