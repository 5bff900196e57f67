"""The speed suite: every script of this folder that reports lines, one after another, as one table.

    make bench
    make bench ONLY="ora fit"
    python speed/suite.py [ora fit …]

A script joins by being here and by importing `report` from timing.py. Each runs in a process of its own; one
that crashes or hangs is a missed line. A whole run writes its table into docs/performance.md; a selection
prints it and leaves the page alone, since figures of one table come from one run. Exit code 1 if a bound is
missed by more than its tolerance.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import machine
from lines import RECORD, recorded
from page import PAGE, Outcome, put, table

FOLDER = Path(__file__).parent
LONGEST = 600.0  # seconds: a script that takes longer hangs


def joins(path: Path) -> bool:
    """Whether a file is a script of the suite: it takes `report` from timing.py."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "timing"
        and any(name.name == "report" for name in node.names)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def scripts(folder: Path = FOLDER) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if joins(path)]


def chosen(found: Sequence[Path], words: Sequence[str]) -> list[Path]:
    """The scripts that the words name: `ora` is ora_speed.py, `guard_overhead` is itself; no words, all."""
    if unknown := [word for word in words if not any(named(path, word) for path in found)]:
        raise SystemExit(
            f"no script {', '.join(unknown)} in speed/: {', '.join(path.stem for path in found)}"
        )
    return [path for path in found if not words or any(named(path, word) for word in words)]


def named(path: Path, word: str) -> bool:
    return path.stem == word or path.stem.startswith(f"{word}_")


def run(script: Path, longest: float = LONGEST) -> Outcome:
    """Run one script to its end, and read the lines it has recorded."""
    about = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "lines.jsonl"
        start = time.perf_counter()
        # A session of its own, so that what a hanging script has started ends with it.
        process = subprocess.Popen(
            [sys.executable, str(script)], env={**os.environ, RECORD: str(record)}, start_new_session=True
        )
        try:
            code: int | None = process.wait(longest)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines, failure = recorded(record)
        taken = time.perf_counter() - start
    if failure is None and code is None:
        failure = f"it took more than {longest:g} s"
    elif failure is None and code not in (0, 1):
        failure = f"exit code {code}"
    elif failure is None and code == 1 and not any(line.missed for line in lines):
        failure = "exit code 1 without a missed line"
    elif failure is None and not lines:
        failure = "it reported no line"
    return Outcome(script.name, about, taken, lines, failure)


def bench(words: Sequence[str], *, folder: Path = FOLDER, page: Path = PAGE) -> int:
    outcomes = []
    for script in chosen(scripts(folder), words):
        print(f"== {script.name}", flush=True)
        outcomes.append(run(script))
    text = table(machine.facts(), outcomes, datetime.date.today().isoformat())
    print(f"\n{text}\n")
    missed = sum(outcome.missed for outcome in outcomes)
    bounds = sum(one.limit is not None for outcome in outcomes for one in outcome.lines)
    total = sum(outcome.seconds for outcome in outcomes)
    print(f"{bounds} bounds, {missed} missed, {total:.0f} s")
    if not words:
        put("bench", text, page)
    return 1 if missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", help="scripts to run, by the beginning of their names")
    sys.exit(bench(parser.parse_args().only))
