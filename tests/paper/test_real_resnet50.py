"""The tables on the real ResNet-50: some rows of each, computed again to every digit, and what is said of it.

All rows take two minutes; `theodolite reproduce imagenet-resnet50` makes them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from theodolite.benchmarks.result import RunResult
from theodolite.paper import Context, RunStudy, experiments
from theodolite.paper.experiments.angles import compared
from theodolite.paper.experiments.feature_folders import measured
from theodolite.paper.experiments.real_resnet50 import FOLDER, NAME

ROOT = Path(__file__).parents[2]
TABLES = {
    FOLDER: ("msp", "ora", "fdbd", "knn"),
    f"aggregation-{FOLDER}": ("ora?aggregate=mean",),
    f"centring-{FOLDER}": ("ora?centre=predicted",),
    f"shaping-{FOLDER}": ("energy+scale:90",),
}


def committed(file: str) -> RunStudy:
    return RunStudy.from_json(json.loads((ROOT / "results" / f"{file}.json").read_text(encoding="utf-8")))


def fpr95(result: RunResult, label: str) -> float:
    return result.cell(FOLDER, label, "textures", "fpr95").value


def test_rows_of_every_table_come_back_to_every_digit(data_root: Path, tmp_path: Path) -> None:
    context = Context(data_root, tmp_path)
    asked = [spec for specs in TABLES.values() for spec in specs]
    again = measured(context, FOLDER, asked, NAME, "again").result
    seen = set()
    for file in TABLES:
        known = committed(file).result
        assert known.subjects == again.subjects
        for cell in again.cells:
            if cell.detector in known.detectors:
                before = known.cell(cell.subject, cell.detector, cell.ood, cell.metric)
                assert (before.value, before.samples) == (cell.value, cell.samples), (file, cell)
                seen.add(cell.detector)
    assert seen == set(again.detectors)


def test_the_angles_come_back_to_every_digit(data_root: Path, tmp_path: Path) -> None:
    again, known = compared(Context(data_root, tmp_path), FOLDER, NAME), committed(f"angles-{FOLDER}")
    assert again.result.cells == known.result.cells
    assert again.distributions == known.distributions


def test_the_tables_are_those_of_the_other_folders() -> None:
    """The same rows as for EfficientNet-Lite0: none was added or left out after a look."""
    for table in (*TABLES, f"angles-{FOLDER}"):
        other = committed(table.replace(FOLDER, "imagenet-lite0"))
        assert list(committed(table).result.detectors) == list(other.result.detectors), table
    assert experiments()[NAME].command == committed(FOLDER).result.command


@pytest.mark.parametrize("page", ["results.md"])
def test_what_the_page_says_is_what_the_tables_hold(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    section = text[text.index("## A real ResNet-50") :].partition("\n## ")[0]
    result = committed(FOLDER).result
    row = r"^\| (\w[\w+ -]*?)(?: \(ours\))? \| \**([\d.]+)\** \|"
    rows = dict(re.findall(row, section, re.M))
    assert len(rows) == 16
    assert set(rows) <= set(result.detectors)
    for label, printed in rows.items():
        assert float(printed) == round(fpr95(result, label), 2), label
    order = sorted(result.detectors, key=lambda label: fpr95(result, label))
    assert order[:2] == ["Relative Energy", "ViM"]
    assert {label for label in order if fpr95(result, label) < fpr95(result, "ORA")} == {
        "Relative Energy", "ViM", "CoP", "LTS", "KNN",
    }  # fmt: skip
    centres = committed(f"centring-{FOLDER}").result
    assert min(centres.detectors, key=lambda label: fpr95(centres, label)) == "ORA"
    shaped = committed(f"shaping-{FOLDER}").result
    assert min(shaped.detectors, key=lambda label: fpr95(shaped, label)) == "ORA + react:90"
    spread = committed(f"angles-{FOLDER}").distributions
    assert spread is not None
    assert spread["sin α"]["id_test"].mean > 0.999
