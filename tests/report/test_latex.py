"""LaTeX as it goes into a paper: labels, groups, escapes; compiled for real where there is a LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import theodolite as th
from made_folders import make_folder
from theodolite.benchmarks import Intervals, Repeats, RunResult
from theodolite.report.tables import Table, TableCell, View, combined_tables, latex, latex_document
from theodolite.report.tables.latex import _SIGNS

# Every printable sign of ASCII, and all that we write ourselves.
HOSTILE = " ".join([*map(chr, range(33, 127)), *_SIGNS])
PAPER = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs,graphicx}
\begin{document}
See LABELS.
\input{results}
\end{document}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    home = tmp_path_factory.mktemp("latex")
    folders = [f"features:{make_folder(home / f'net_{seed}', seed=seed)}" for seed in range(4)]
    return th.bench(
        folders[0],
        [folders[1], Repeats("50 % & more_", tuple(folders[2:]))],
        detectors=["ora", "msp", "knn?k=7"],
        intervals=Intervals(10),
        against="msp",
        settings=th.BenchSettings(cache=home / "cache"),
    )


def labels(text: str) -> list[str]:
    return re.findall(r"\\label\{(.*?)\}", text)


def test_every_table_has_a_caption_and_a_label_of_its_own(result: RunResult, tmp_path: Path) -> None:
    text = next(p for p in th.write_files(result, tmp_path) if p.suffix == ".tex").read_text(encoding="utf-8")
    assert text.startswith("% \\usepackage{booktabs,graphicx}\n")
    found = labels(text)
    assert found[:3] == ["tab:metrics-models", "tab:fpr95-models", "tab:auroc-models"]
    assert "tab:fpr95-against-MSP-net_0" in found
    assert len(set(found)) == len(found) == text.count(r"\caption{") == text.count(r"\begin{tabular}")
    assert text.count("{table}") + text.count("{table*}") == 2 * len(found)
    same = Table("t", ("score", "a"), (("x", (TableCell("1.00"),)),), name="n")
    assert labels(latex_document([same, same])) == ["tab:n", "tab:n-2"]


def test_metrics_stand_side_by_side_below_their_model(result: RunResult) -> None:
    (table,) = combined_tables(result)
    text = latex(table)
    assert table.groups == (("net_0", 2), ("net_1", 2), ("50 % & more_", 2), ("average of 3 models", 2))
    heads = (r"\multicolumn{2}{c}{net\_0}", r"\multicolumn{2}{c}{50 \% \& more\_}")
    for head in heads:
        assert head in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert r"Score & FPR95 $\downarrow$ & AUROC $\uparrow$ & FPR95" in text
    row = next(line for line in text.splitlines() if line.startswith("ORA &"))
    for model in result.models:
        for name in ("fpr95", "auroc"):
            assert f"{result.cell(model, 'ORA', 'average', name).value:.2f}" in row
    assert r"$\pm$" in row
    assert "[" not in row, "intervals are in the tables of one metric"
    one = latex(combined_tables(result, View(only=("ora",)))[0])
    assert "ORA" in one
    assert "MSP" not in one


def test_what_is_best_is_bold_and_the_second_underlined() -> None:
    cells = ((TableCell("1.00", 1),), (TableCell("2.00", 2, "1, 3", "9.9"),), (TableCell("3.00"),))
    table = Table("t", ("score", "a"), tuple(zip("xyz", cells, strict=True)), "l")
    body = latex(table).splitlines()
    assert r"x & \textbf{1.00} \\" in body
    assert r"y & \underline{2.00} [1, 3] (9.9) \\" in body
    assert r"z & 3.00 \\" in body


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no LaTeX here: apt-get install texlive-latex-recommended"
)
def test_it_compiles_without_a_box_that_is_too_wide(result: RunResult, tmp_path: Path) -> None:
    th.write_files(result, tmp_path)
    wide = tuple((f"model {place}", 2) for place in range(9))
    row = tuple(TableCell("12.34", place % 3, spread="0.12") for place in range(18))
    hostile = [
        Table(HOSTILE, ("score", HOSTILE[:20], "b"), ((HOSTILE, row[:2]),), HOSTILE, name="hostile"),
        Table("Nine", ("score", *["FPR95 ↓", "AUROC ↑"] * 9), (("ORA", row),), "l", groups=wide, name="nine"),
    ]
    text = (tmp_path / "results.tex").read_text(encoding="utf-8") + latex_document(hostile)
    (tmp_path / "results.tex").write_text(text, encoding="utf-8")
    named = ", ".join(rf"\ref{{{label}}}" for label in labels(text))
    (tmp_path / "main.tex").write_text(PAPER.replace("LABELS", named), encoding="utf-8")
    for _ in range(2):
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "main.log").read_text(encoding="utf-8", errors="replace")
    assert "Reference" not in log, "every label is found"
    assert "multiply defined" not in log
    assert "Overfull" not in log
