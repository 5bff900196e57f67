"""Progress where nobody watches: a line now and then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from theodolite.cli import _progress as progress


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
