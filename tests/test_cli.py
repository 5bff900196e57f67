"""The command, as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import theodolite
from theodolite.demo.run import run_demo

pytest.importorskip("mlxtend", reason="the demo extra is not installed: pip install 'theodolite[demo]'")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "theodolite", *arguments],
        capture_output=True, text=True, cwd=cwd, env=environment, check=False,
    )  # fmt: skip


def test_version() -> None:
    assert run("--version").stdout == f"theodolite {theodolite.__version__}\n"


def test_detectors_lists_every_score() -> None:
    shown = run("detectors").stdout
    for name in theodolite.list_detectors():
        assert name in shown


def test_importing_stays_light() -> None:
    heavy = "{'matplotlib', 'sklearn', 'rich', 'typer', 'torchvision'}"
    program = f"import sys, theodolite; print({heavy} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_demo_from_the_shell(tmp_path: Path) -> None:
    shown = run("demo", "--epochs", "1", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "held-out digits right" in shown.stdout
    for word in ("ORA", "fDBD", "digits 8-9", "textures", "photos", "negatives", "average"):
        assert word in shown.stdout
    assert (tmp_path / "theodolite-demo" / "triangle.png").stat().st_size > 10_000
    report = tmp_path / "theodolite-demo" / "report.html"
    assert f"report: {report}" in shown.stdout
    assert "Most deceptive OOD" in report.read_text(encoding="utf-8")


def test_demo_learns_and_detects(tmp_path: Path) -> None:
    with Path(os.devnull).open("w") as quiet:
        result = run_demo(tmp_path, epochs=6, seed=0, console=Console(file=quiet))
    assert result.accuracy > 0.9
    assert result.evaluation.average("MSP", "auroc") > 0.8
    # The contact sheet needs the packages of a network, without which the demo goes on.
    drawn = {path.name for path in result.files} - {"contact-sheet.png"}
    both = {f"{stem}.{suffix}" for stem in ("histogram-ora", "triangle") for suffix in ("png", "svg")}
    assert drawn == {"histograms.png", *both}
    page = result.report.read_text(encoding="utf-8")
    assert f"{100 * result.evaluation.average('MSP', 'auroc'):.1f}" in page
    for path in result.files:
        assert path.stat().st_size > 10_000
