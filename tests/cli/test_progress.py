"""Progress where nobody watches: a line now and then."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

from theodolite.cli import _progress as progress
from theodolite.features import ExtractionProgress


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr("theodolite.cli._progress.time.monotonic", lambda: next(clock))
    out = io.StringIO()
    with progress.progress_bar(Console(file=out, width=80), "model on [data]", unit="images") as show:
        for done in range(100, 700, 100):
            show(done, 600)
    lines = out.getvalue().splitlines()
    assert 0 < len(lines) < 5
    assert all(line.startswith("model on [data]: ") and line.endswith(" of 600 images") for line in lines)
    assert "600 of 600" not in out.getvalue()


def test_extractions_one_after_the_other_say_where_they_go_on_and_are_kept() -> None:
    out = io.StringIO()
    with progress.extracting(Console(file=out, width=80)) as watch:
        for name, start in (("a", 0), ("b", 64)):
            state = ExtractionProgress("lite:net", f"folder/{name}")
            watch(state)
            for done in (start, 128):
                watch(replace(state, done=done, total=128))
            watch(replace(state, done=128, total=128, kept=Path("cache") / name))
    assert out.getvalue().splitlines() == [
        "features of folder/a are kept in cache/a",
        "going on from 64 of 128 samples",
        "features of folder/b are kept in cache/b",
    ]


def interrupt_after(state: ExtractionProgress) -> None:
    with progress.extracting(Console(file=io.StringIO())) as watch:
        watch(state)
        raise KeyboardInterrupt


def test_an_interrupted_extraction_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    state = ExtractionProgress("lite:net", "data", done=64, total=128)
    with pytest.raises(typer.Exit) as stopped:
        interrupt_after(state)
    assert stopped.value.exit_code == 130
    assert "stopped at 64 of 128 samples: complete shards are kept" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        interrupt_after(replace(state, kept=Path("cache")))
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_for_each_extraction() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with progress.extracting(console) as watch:
        for name in ("a", "b"):
            state = ExtractionProgress("lite:net", f"folder/{name}")
            watch(state)
            watch(replace(state, done=128, total=128))
            watch(replace(state, done=128, total=128, kept=Path("cache") / name))
    shown = out.getvalue()
    places = [shown.rindex(text) for text in ("lite:net on a", "kept in cache/a", "lite:net on b")]
    assert places == sorted(places)
    assert "128/128" in shown
