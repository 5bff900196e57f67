"""The command, as a person runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import theodolite
from made_folders import make_folder
from theodolite.detectors import detector_record

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
    shown = run("demo", "--epochs", "6", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    right = re.search(r"([\d.]+) % of 1,000 held-out digits right", shown.stdout)
    assert right
    assert float(right[1]) > 90
    rows = {line.split("│")[1].strip(): line for line in shown.stdout.splitlines() if line.startswith("│")}
    assert set(rows) == {detector_record(name).title for name in theodolite.list_detectors()}
    fpr95, auroc = rows["MSP"].split("│")[-2].split("/")
    assert float(fpr95) < 90
    assert float(auroc) > 80
    for word in ("digits 8-9", "textures", "photos", "negatives", "average", "other held-out digits"):
        assert word in shown.stdout
    folder = tmp_path / "theodolite-demo"
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
    assert auroc.strip() in page


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
