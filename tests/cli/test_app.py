"""The command, as a person runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest

import theodolite
from command_server import run as command
from made_folders import make_folder
from theodolite.demo.table import SHOWN
from theodolite.detectors.spec import parse_specs

pytest.importorskip("mlxtend", reason="the demo extra is not installed: pip install 'theodolite[demo]'")


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = command(*arguments, folder=cwd, env={"COLUMNS": "120", "NO_COLOR": "1"})
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)


def test_version() -> None:
    """Of an interpreter of its own."""
    asked = [sys.executable, "-m", "theodolite", "--version"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    assert shown == f"theodolite {theodolite.__version__}\n"


def test_detectors_lists_every_score() -> None:
    shown = run("detectors").stdout
    for name in theodolite.list_detectors():
        assert name in shown


def tables(shown: str) -> list[dict[str, list[str]]]:
    """The numbers of every table on the screen, by the label of their row."""
    found: list[dict[str, list[str]]] = []
    for line in shown.splitlines():
        label, *numbers = re.split(r" {2,}", line.strip())
        if " in %" in line:
            found.append({})
        elif found and numbers and all(re.fullmatch(r"\d+\.\d\d", number) for number in numbers):
            found[-1][label] = numbers
    return found


def test_demo_from_the_shell(tmp_path: Path) -> None:
    here = tmp_path / "[red] is no colour["
    here.mkdir()
    shown = run("demo", "--epochs", "2", cwd=here)
    assert shown.returncode == 0, shown.stderr
    right = re.search(r"([\d.]+) % of 1,000 held-out digits right", shown.stdout)
    assert right
    assert float(right[1]) > 90
    (table,) = tables(shown.stdout)
    assert len(table) == len(SHOWN)
    assert {"Relative Energy ◂", "ORA", "ORA aggregate=mean", "MSP"} <= set(table)
    averages = [float(numbers[0]) for numbers in table.values()]
    assert averages == sorted(averages), "the best on top"
    assert averages[-1] < 90
    assert float(table["MSP"][1]) > 80
    for word in ("8 and 9", "textures", "photos", "negatives", "What it teaches: ", "other held-out digits"):
        assert word in shown.stdout
    assert len(shown.stdout.splitlines()) < 45, "short"
    assert shown.stdout.splitlines()[-1].endswith("theodolite reproduce mnist")
    folder = here / "theodolite-demo"
    # The contact sheet needs the packages of a network, without which the demo goes on.
    drawn = {path.name for path in folder.iterdir()} - {"contact-sheet.png"}
    both = {f"{stem}.{suffix}" for stem in ("histogram-ora", "triangle") for suffix in ("png", "svg")}
    assert drawn == {"histograms.png", "report.html", *both}
    for path in folder.iterdir():
        assert path.stat().st_size > 10_000
    report = folder / "report.html"
    assert f"report: {report}" in shown.stdout.replace("\n", "")
    page = report.read_text(encoding="utf-8")
    assert "Most deceptive OOD" in page
    assert all(value in page for value in table["MSP"])
    for spec in parse_specs([]):
        assert f'<th scope="row">{escape(spec.label)}' in page


SCORE = """
from theodolite import Detector, register

@register("gap", title="Gap", paper="ours", year=2026, formula="l_1 - l_2")
class Gap(Detector):
    def _score(self, features, logits):
        first, second = logits.topk(2, dim=1).values.unbind(1)
        return first - second
"""


def test_a_score_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "my_scores.py").write_text(SCORE)
    make_folder(tmp_path / "made")
    bench = ("bench", "features:made", "--detector", "gap", "--cache", "cache", "-o", "out")
    done = run("--import", "my_scores", *bench, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Gap" in done.stdout
    refused = run("--import", "no_scores", *bench, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: --import no_scores")
