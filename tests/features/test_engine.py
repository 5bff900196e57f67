"""Engines by their text, and a local one that never imports Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from made_guards import clusters, head
from made_stores import store_of
from theodolite.core.errors import InputError, MissingExtraError
from theodolite.features.engine import RayEngine, engine_of
from theodolite.features.ray_cluster import import_ray


@pytest.mark.parametrize(
    ("text", "address"), [("ray", None), ("ray:auto", "auto"), ("ray:10.0.0.1:6379", "10.0.0.1:6379")]
)
def test_an_engine_by_its_text(text: str, address: str | None) -> None:
    assert engine_of(text) == RayEngine(address)
    assert engine_of("local") is None


@pytest.mark.parametrize("text", ["spark", "ray:", "rai", ""])
def test_an_unknown_engine_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="engine must be"):
        engine_of(text)
    for wrong in ({"concurrency": 0}, {"cpus": 0}, {"gpus": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            RayEngine(**wrong)  # type: ignore[arg-type]


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"^ray is not installed: pip install 'theodolite\[ray\]'$"):
        import_ray()


def test_the_local_engine_never_imports_ray(tmp_path: Path) -> None:
    """Of a whole fit and score, by the modules loaded at the end."""
    store = store_of(tmp_path / "store", *clusters(200, 0), head())
    code = f"""
import sys
from theodolite import fit_guard
from theodolite.cli.app import main
fitted = fit_guard({str(store.path)!r}, detector="ora", force=True, false_alarm_rate=0.2)
fitted.guard.save("guard.safetensors")
sys.argv = ["theodolite", "score", "guard.safetensors", {str(store.path)!r}, "-o", "scores.csv"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.exit(any(name.split(".")[0] == "ray" for name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "scores.csv").is_file()
