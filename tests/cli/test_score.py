"""`theodolite score`: what it shows, what it writes where, and what its exit code says."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from command_server import Outcome, run
from made_guards import fitted
from theodolite.cli.summary import Summary
from theodolite.guard import Guard, PathVerdict
from theodolite.report.p_values import p_value_text

ROOT = Path(__file__).parents[2]
MODEL = ("--model", "python:small_models:Tiny?mean=0&size=8")
FLAGGED = 3
SHOWN = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise to fit on, a few of the same noise, black pictures that are strange, and a guard."""
    folder = tmp_path_factory.mktemp("score")
    rng = np.random.default_rng(0)
    for name, count in (("images", 240), ("alike", 4)):
        (folder / name).mkdir()
        for index in range(count):
            pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index:03d}.png")
    cache = {"THEODOLITE_CACHE": str(folder / "cache")}
    command = ("fit", *MODEL, "--data", folder / "images", "-o", folder / "guard.safetensors")
    made = run(*command, "--detector", "ora", "--calibration-share", "0.5", env=cache)
    assert made.code == 0, made.err
    (folder / "strange").mkdir()
    for index in range(3):
        Image.new("L", (8, 8), index).save(folder / "strange" / f"{index}.png")
    return folder


def score(folder: Path, *arguments: str | Path) -> Outcome:
    return run("score", *MODEL, folder / "guard.safetensors", *arguments, env={"COLUMNS": "200"})


def rows_of(count: int, *, batch: int = 1_000) -> Iterator[list[PathVerdict]]:
    """Rows whose scores fall, so that the last are the strangest."""
    for start in range(0, count, batch):
        yield [
            PathVerdict(f"{index}.png", 0, "cat", 1 - index / count, 1 - index / count, "ID")
            for index in range(start, min(start + batch, count))
        ]


def shown_by(summary: Summary) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    summary.print(console, None)
    return console.export_text()


@pytest.mark.parametrize(
    ("p_value", "text"),
    [(1.0, "1.00"), (0.05, "0.0500"), (1 / 3001, "0.000333"), (0.9996, "1.00"), (1 / 50_001, "2.00e-05")],
)
def test_no_p_value_is_printed_as_zero(p_value: float, text: str) -> None:
    assert p_value_text(p_value) == text
    assert float(text) > 0


def test_the_smallest_p_value_is_not_zero_on_screen() -> None:
    summary = Summary(fitted().title, 0.05, SHOWN)
    summary.add([PathVerdict("a.png", 0, "cat", -3.0, 1 / 3001, "OOD")])
    shown = shown_by(summary)
    assert "0.000333" in shown
    assert "0.000 " not in shown


def test_the_screen_shows_the_strangest_and_says_so() -> None:
    summary = Summary(fitted().title, 0.05, SHOWN)
    for rows in rows_of(5_000):
        summary.add(rows)
    shown = shown_by(summary)
    assert [row.path for row in summary.strangest] == [f"{index}.png" for index in range(4_999, 4_979, -1)]
    assert "the 20 strangest of 5,000, lowest p-value first" in shown
    assert shown.index("4999.png") < shown.index("4980.png")
    assert " 0.png" not in shown


def test_rows_that_are_equally_strange_keep_their_order() -> None:
    summary = Summary(fitted().title, 0.05, 2)
    summary.add([PathVerdict(name, 0, "cat", 0.5, 0.5, "ID") for name in "abcd"])
    assert [row.path for row in summary.strangest] == ["a", "b"]


def test_memory_does_not_grow_with_the_rows() -> None:
    """Neither with those judged, nor with those that could not be read."""
    summary = Summary(fitted().title, 0.05, SHOWN)
    unread = [PathVerdict("x" * 500, None, None, None, None, "unreadable")] * 1_000
    tracemalloc.start()
    try:
        for rows in rows_of(20_000):
            summary.add(rows)
            summary.add([row._replace(path=row.path + str(index)) for index, row in enumerate(unread)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 2**20
    assert "20,000 unreadable, without verdict: " in (shown := shown_by(summary))
    assert "and 19,995 more" in shown


def test_the_strangest_of_all_paths_come_first(folder: Path, tmp_path: Path) -> None:
    """Also those of the last path."""
    out = score(folder, folder / "images", folder / "strange", "-o", tmp_path / "scores.jsonl")
    assert out.code == 0, out.err
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    strangest = [row["path"] for row in sorted(rows, key=lambda row: row["score"])[:SHOWN]]
    shown = [line.split()[1] for line in out.out.splitlines() if ".png" in line]
    assert shown == strangest
    assert any("strange" in path for path in shown)
    assert "the 20 strangest of 243, lowest p-value first" in out.out


def test_a_dash_writes_rows_and_nothing_else_to_standard_output(folder: Path, tmp_path: Path) -> None:
    to_file = score(folder, folder / "images", "-o", tmp_path / "scores.csv")
    piped = score(folder, folder / "images", "-o", "-")
    assert piped.code == 0, piped.err
    assert piped.out == (tmp_path / "scores.csv").read_text()
    assert len(list(csv.DictReader(io.StringIO(piped.out)))) == 240
    assert "of 240 flagged as OOD" in piped.err
    assert "of 240 flagged as OOD" in to_file.out
    assert f"all rows in {tmp_path / 'scores.csv'}" in to_file.out
    assert "all rows in" not in piped.err
    assert not Path("-").exists()


def test_the_format_can_be_named(folder: Path, tmp_path: Path) -> None:
    piped = score(folder, folder / "images", "-o", "-", "--format", "jsonl")
    rows = [json.loads(line) for line in piped.out.splitlines()]
    assert len(rows) == 240
    assert set(rows[0]) == set(PathVerdict._fields)
    named = score(folder, folder / "images", "-o", tmp_path / "scores.txt", "--format", "jsonl")
    assert named.code == 0, named.err
    assert (tmp_path / "scores.txt").read_text() == piped.out
    for wrong, word in (
        (("-o", "-", "--format", "parquet"), "standard output"),
        (("-o", "-", "--format", "xml"), "csv, jsonl or parquet"),
        (("-o", tmp_path / "scores"), ".csv, .jsonl or .parquet"),
        (("--format", "jsonl"), "--output"),
    ):
        refused = score(folder, folder / "images", *wrong)
        assert refused.code == 2
        assert word in refused.err
        assert refused.out == ""


@pytest.mark.parametrize("suffix", [".CSV", ".Jsonl", ".PARQUET"])
def test_suffixes_may_be_in_capitals(folder: Path, tmp_path: Path, suffix: str) -> None:
    if suffix == ".PARQUET":
        pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
    for name in (f"one{suffix}", f"two{suffix.lower()}"):
        assert score(folder, folder / "alike", "-o", tmp_path / name).code == 0
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix.lower()}").read_bytes()


def test_names_that_are_no_utf8_lose_nothing(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
    odd = tmp_path / os.fsdecode(b"caf\xe9.png")
    shutil.copy(folder / "alike" / "000.png", odd)
    for suffix in ("csv", "jsonl", "parquet"):
        out = score(folder, odd, "-o", tmp_path / f"scores.{suffix}")
        assert out.code == 0, out.err
    assert json.loads((tmp_path / "scores.jsonl").read_text())["path"] == str(odd)
    assert "caf\\udce9.png" in (tmp_path / "scores.csv").read_text()


def test_a_reader_that_stops_early_is_no_traceback(folder: Path) -> None:
    guard, images = folder / "guard.safetensors", folder / "images"
    command = [sys.executable, "-m", "theodolite", "score", *MODEL, str(guard), str(images), "-o", "-"]
    places = os.pathsep.join(str(ROOT / place) for place in ("src", "tests/helpers"))
    environment = {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() != 0
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_the_exit_code_says_that_something_was_flagged(folder: Path, tmp_path: Path) -> None:
    both = (folder / "alike", folder / "strange")
    assert score(folder, *both).code == 0
    flagged = score(folder, *both, "--fail-on-ood", "-o", tmp_path / "scores.csv")
    assert flagged.code == FLAGGED
    assert flagged.err == ""
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 8
    fine = score(folder, folder / "alike", "--fail-on-ood", "--false-alarm-rate", "0.02")
    assert fine.code == 0, fine.out


def test_what_has_no_verdict_is_no_success(folder: Path, tmp_path: Path) -> None:
    for index in range(2):
        Image.open(folder / "alike" / f"{index:03d}.png").save(tmp_path / f"{index}.png")
    options = (tmp_path, "--false-alarm-rate", "0.02", "--skip-unreadable")
    assert score(folder, *options, "--fail-on-ood").code == 0
    (tmp_path / "cut.png").touch()
    assert score(folder, *options).code == 0
    failed = score(folder, *options, "--fail-on-ood")
    assert failed.code == FLAGGED
    assert "1 unreadable, without verdict" in failed.out


def test_a_verdict_of_another_word_is_counted_apart() -> None:
    """Rows that have neither ID nor OOD as their verdict are no verdicts, whatever the reason."""
    summary = Summary(fitted().title, 0.05, SHOWN)
    rows = [PathVerdict(f"{index}", None, None, None, None, "unscorable") for index in range(2)]
    summary.add([*rows, PathVerdict("c", 0, "cat", 0.5, 0.5, "ID")])
    assert not summary.all_trusted
    assert "0 of 1 flagged" in (shown := shown_by(summary))
    assert "2 unscorable, without verdict: 0, 1" in shown


def test_the_guard_is_one_that_flags(folder: Path) -> None:
    """What the tests above rest on."""
    guard = Guard.load(folder / "guard.safetensors")
    verdicts = [row.verdict for row in guard.score_folder(folder / "strange", model=MODEL[1])]
    assert verdicts == ["OOD"] * 3
