"""The machinery of `make bench`, on made-up lines and scripts: nothing here is timed."""

from __future__ import annotations

import ast
import importlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import growth
import page as pages
import suite
import timing
from lines import RECORD, Line, Measured, line, recorded
from page import Outcome

ROOT = Path(__file__).parents[1]
MARKED = "# Page\n\nbefore\n\n<!-- bench: begin -->\nold\n<!-- bench: end -->\n\nafter\n"


def script(folder: Path, name: str, *body: str) -> Path:
    """A script of the suite beside a copy of nothing: it finds timing.py where the suite's own scripts do."""
    path = folder / name
    header = f'"""A made-up script, {name}."""\nimport sys\nsys.path.insert(0, {str(suite.FOLDER)!r})\n'
    path.write_text(header + "from timing import report\n" + "\n".join(body) + "\n", encoding="utf-8")
    return path


def test_a_median_knows_its_quartiles_and_is_a_number() -> None:
    measured = Measured([4.0, 1.0, 2.0, 3.0, 5.0])
    assert measured == 3.0
    assert measured.quartiles() == (2.0, 4.0)
    percent = measured.turned(lambda ratio: 100 * (ratio - 1))
    assert (percent, percent.quartiles()) == (200.0, (100.0, 300.0))
    assert type(measured / 2) is float


def test_pairs_begin_with_either_side_in_turn_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    clock = {"work": 6.0, "yardstick": 2.0}

    def seconds(side: object) -> float:
        assert callable(side)
        side()
        return clock[ran[-1]]

    monkeypatch.setattr(timing, "seconds", seconds)
    ratio = timing.paired_ratio(lambda: ran.append("work"), lambda: ran.append("yardstick"), rounds=4)
    assert ran[:2] == ["work", "yardstick"]
    assert ran[2:] == ["work", "yardstick", "yardstick", "work"] * 2
    assert ratio.samples == (3.0,) * 4, "the work over the yardstick, whichever ran first"


@pytest.mark.parametrize(
    ("value", "limit", "at_least", "tolerance", "verdict"),
    [
        (1.15, 1.15, False, 0.1, "kept"),
        (1.26, 1.15, False, 0.1, "within tolerance"),
        (1.27, 1.15, False, 0.1, "MISSED"),
        (0.90, 0.90, True, 0.1, "kept"),
        (0.82, 0.90, True, 0.1, "within tolerance"),
        (0.80, 0.90, True, 0.1, "MISSED"),
        (1, 0, False, 0.1, "MISSED"),
        (0, 0, False, 0.0, "kept"),
        (-2.15, -2.0, True, 0.1, "within tolerance"),
        (math.nan, 1.0, False, 0.1, "MISSED"),
        (math.nan, 1.0, True, 0.1, "MISSED"),
        (9.0, None, False, 0.1, ""),
    ],
)
def test_a_bound_is_missed_past_its_tolerance(
    value: float, limit: float | None, at_least: bool, tolerance: float, verdict: str
) -> None:
    made = Line("made up", value, "x", None, limit, at_least, tolerance)
    assert made.verdict == verdict
    assert made.missed == (verdict == "MISSED")
    assert made.kept == (verdict in ("kept", ""))


def test_what_is_timed_has_a_tolerance_and_counts_have_none() -> None:
    assert line("a ratio", 1.0, "x").tolerance == 0.1
    assert line("milliseconds", 1.0, "ms").tolerance == 0.1
    assert line("memory", 1.0, "MiB").tolerance == 0.0
    assert line("answers lost", 1.0, "").tolerance == 0.0
    assert line("stated", 1.0, "x", tolerance=0.02).tolerance == 0.02


def test_lines_come_back_from_their_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "lines.jsonl"
    monkeypatch.setenv(RECORD, str(record))
    ratio = Measured([1.0, 1.1, 1.2])
    assert timing.report("work / yardstick", ratio, "x", limit=1.05)
    assert not timing.report("answers lost", 3, "", limit=0)
    assert timing.report("seconds", 2.0, "s")
    lines, crash = recorded(record)
    assert crash is None
    assert lines == [
        line("work / yardstick", ratio, "x", limit=1.05),
        line("answers lost", 3, "", limit=0),
        line("seconds", 2.0, "s"),
    ]
    assert lines[0].quartiles == pytest.approx((1.05, 1.15))
    assert lines[2].quartiles is None
    printed = capsys.readouterr().out
    assert "1.10 x [1.05, 1.15]   (at most 1.05: within tolerance)" in printed
    assert "(at most 0: MISSED)" in printed


def test_the_table_from_made_up_lines() -> None:
    ratio = Measured([1.1, 1.2, 1.3])
    outcomes = [
        Outcome("a_speed.py", "What a costs.", 12.3, [line("a / addmm", ratio, "x", limit=1.0)]),
        Outcome("b_speed.py", "What b costs.", 4.0, [line("b | c", 1234.5, "MiB")], "MemoryError: no\nroom"),
    ]
    assert pages.table({"Python": "3.11", "cores": "2"}, outcomes, "2025-01-31").splitlines() == [
        "2025-01-31: Python 3.11, cores 2.",
        "",
        "|  | measured | quartiles | bound | tolerance |  |",
        "|---|---:|---:|---:|---:|---|",
        "| **What a costs.** `a_speed.py`, 12 s |  |  |  |  |  |",
        "| a / addmm | 1.20 x | 1.15 to 1.25 | at most 1 | 10% | **MISSED** |",
        "| **What b costs.** `b_speed.py`, 4 s |  |  |  |  |  |",
        r"| b \| c | 1,234 MiB |  |  |  |  |",
        "| ended early: MemoryError: no room |  |  |  |  | **MISSED** |",
    ]
    assert [outcome.missed for outcome in outcomes] == [1, 1]


@pytest.mark.parametrize("text", ["no marks", MARKED + MARKED, MARKED.replace("begin", "start")])
def test_a_page_without_its_marks_is_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must hold the marks"):
        pages.put("bench", "new", page)
    assert page.read_text(encoding="utf-8") == text


def test_a_whole_run_writes_the_page_and_a_crash_is_a_missed_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(MARKED, encoding="utf-8")
    script(tmp_path, "fine_speed.py", 'report("fine", 1.0, "x", limit=1.0)')
    (tmp_path / "helper.py").write_text("raise SystemExit('no script of the suite')\n", encoding="utf-8")
    assert suite.bench([], folder=tmp_path, page=page) == 0
    script(tmp_path, "crash_speed.py", 'report("before", 2.0, "x")', "raise RuntimeError('made up')")
    assert suite.bench([], folder=tmp_path, page=page) == 1
    written = page.read_text(encoding="utf-8")
    assert written.startswith("# Page\n\nbefore\n")
    assert written.endswith("\n\nafter\n")
    assert "old" not in written
    assert "| fine | 1.00 x |  | at most 1 | 10% | kept |" in written
    assert "| before | 2.00 x |" in written
    assert "| ended early: RuntimeError: made up |  |  |  |  | **MISSED** |" in written


def test_a_selection_leaves_the_page_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(tmp_path, "ora_speed.py", 'report("kept", 1.0, "x", limit=1.0)')
    script(tmp_path, "fit_speed.py", 'report("missed", 2.0, "x", limit=1.0)', "sys.exit(1)")
    page = tmp_path / "page.md"
    assert suite.bench(["ora"], folder=tmp_path, page=page) == 0
    assert "| missed |" not in capsys.readouterr().out
    assert suite.bench(["ora", "fit_speed"], folder=tmp_path, page=page) == 1
    assert "2 bounds, 1 missed" in capsys.readouterr().out
    assert not page.exists()
    with pytest.raises(SystemExit, match="no script nothing in speed/: fit_speed, ora_speed"):
        suite.bench(["ora", "nothing"], folder=tmp_path, page=page)


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ('report("held", 1.0, "x", limit=1.0)', None),
        ('report("missed", 2.0, "x", limit=1.0); sys.exit(1)', None),
        ('report("missed", 2.0, "x", limit=1.0); raise KeyError("late")', "KeyError: 'late'"),
        ('report("held", 1.0, "x", limit=1.0); sys.exit(1)', "exit code 1 without a missed line"),
        ('report("held", 1.0, "x"); import os; os.kill(os.getpid(), 9)', "exit code -9"),
        ("pass", "it reported no line"),
        ('report("held", 1.0, "x"); import time; time.sleep(60)', "it took more than 2 s"),
    ],
)
def test_how_a_script_ended(tmp_path: Path, body: str, failure: str | None) -> None:
    outcome = suite.run(script(tmp_path, "made_speed.py", body), longest=2)
    assert outcome.failure == failure
    assert len(outcome.lines) == (body != "pass")


def test_every_script_can_be_imported_and_says_what_it_measures() -> None:
    found = suite.scripts()
    assert "ora_speed.py" in [path.name for path in found]
    runnable = [path for path in suite.FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")]
    assert set(runnable) - set(found) == {suite.FOLDER / "suite.py"}, "a script takes report from timing.py"
    for path in found:
        module = importlib.import_module(path.stem)
        assert callable(module.main), f"{path.name} has no main()"
        assert (module.__doc__ or "").strip(), f"{path.name} does not say what it measures"
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert any(isinstance(call, ast.Name) and call.id == "report" for call in calls), path.name


def test_the_page_of_the_docs_takes_the_table(tmp_path: Path) -> None:
    copy = tmp_path / "performance.md"
    copy.write_bytes(pages.PAGE.read_bytes())
    pages.put("bench", "a table", copy)
    assert "<!-- bench: begin -->\na table\n<!-- bench: end -->" in copy.read_text(encoding="utf-8")


def test_the_command_names_its_scripts() -> None:
    """From the shell, as `make bench ONLY=…` calls it."""
    command = [sys.executable, str(ROOT / "speed" / "suite.py"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1
    assert "no script nothing in speed/" in done.stderr


def test_an_exponent_is_the_slope_of_the_upper_part() -> None:
    sizes = [8, 16, 32, 64, 128]
    law = [5.0, 5.0, 3 * 32**1.5, 3 * 64**1.5, 3 * 128**1.5]
    found = growth.exponent(sizes, law, begin=32)
    assert found.value == pytest.approx(1.5)
    assert found.error == pytest.approx(0, abs=1e-7)
    shaken = [value * (1.3, 0.8)[place % 2] for place, value in enumerate(law)]
    found = growth.exponent(sizes, shaken, begin=8)
    fitted = scipy.stats.linregress(np.log(sizes), np.log(shaken))
    assert (found.value, found.error) == pytest.approx((fitted.slope, fitted.stderr))


def test_growth_faster_than_the_formula_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every measured exponent is a row's cell, and one beyond its formula and its error fails the script."""
    found = {
        (kind, axis, name): growth.Exponent(float(formula), 0.01)
        for kind, scores in growth.THEORY.items()
        for name, axes in scores.items()
        for axis, formula in axes.items()
    }
    found |= {("memory", axis, name): growth.Exponent(0.0, 0.0) for axis in "NDC" for name in growth.SCORES}
    monkeypatch.delenv(RECORD, raising=False)
    assert growth.held(found)
    assert "| ORA | 1.00 ± 0.01 (1) | 1.00 ± 0.01 (1) | 2.00 ± 0.01 (2) |" in growth.table(found)
    assert not growth.held({**found, ("fitting", "N", "knn"): growth.Exponent(1.5, 0.05)})
    assert growth.held({**found, ("fitting", "N", "knn"): growth.Exponent(1.5, 0.2)})
    assert not growth.held({**found, ("memory", "N", "ora"): growth.Exponent(1.0, 0.1)})
