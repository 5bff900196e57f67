"""Streams of scores: what was written comes back in order; what is no stream of this guard is refused."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.errors import FormatError, InputError
from theodolite.guard import Calibration, ClassCalibration, PathVerdict
from theodolite.report.score_files import open_sink
from theodolite.report.score_streams import StreamRow, read_stream, scores_of

KNOWN = Calibration(np.random.default_rng(0).standard_normal(99))
HEADER = "path,predicted,name,score,p_value,verdict\n"


def verdicts() -> list[PathVerdict]:
    scores = np.random.default_rng(1).standard_normal(50).astype(np.float32).astype(float)
    rows = [
        PathVerdict(f'odd, "name"\n{place}', 1, "cat", score, p, "OOD" if p <= 0.05 else "ID")
        for place, (score, p) in enumerate(zip(scores.tolist(), KNOWN.p_values(scores).tolist(), strict=True))
    ]
    rows[7] = PathVerdict("broken.jpg", None, None, None, None, "unreadable")
    rows[9] = PathVerdict("nan.jpg", None, None, None, None, "unscorable")
    return rows


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_score_wrote_comes_back_to_the_last_digit(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
    path = tmp_path / "scores.of.today"  # told by what it holds, not by its name
    with open_sink(path, kind=kind) as sink:
        sink.write(verdicts()[:20])
        sink.write(verdicts()[20:])
    rows = list(read_stream(str(path)))
    assert [row.path for row in rows] == [row.path for row in verdicts()]
    expected = [math.nan if row.score is None else row.score for row in verdicts()]
    np.testing.assert_array_equal(scores_of(rows, KNOWN)[0], expected)
    assert [place for place, row in enumerate(rows) if math.isnan(row.score)] == [7, 9]


class Pipe(io.RawIOBase):
    """Standard input that gives a line at a time, and knows how far it was read."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines, self.given = lines, 0

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
        self.given += 1
        return self.lines[self.given - 1] if self.given <= len(self.lines) else b""


def test_rows_of_standard_input_come_as_soon_as_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps(row._asdict()).encode() + b"\n" for row in verdicts()]
    pipe = Pipe(lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))  # type: ignore[type-var]
    rows = read_stream("-")
    for count in range(1, 10):
        row = next(rows)
        assert row.place == f"standard input, line {count}"
        assert pipe.given == count


def test_one_number_a_line_is_a_stream_without_proof(tmp_path: Path) -> None:
    path = tmp_path / "scores.txt"
    path.write_text("0.5\n\n-1e3\nnan\ninf\n", encoding="utf-8")
    rows = list(read_stream(str(path)))
    assert [row.p_value for row in rows] == [None] * 4
    np.testing.assert_array_equal(scores_of(rows, KNOWN)[0], [0.5, -1e3, math.nan, math.inf])


def test_a_calibration_by_class_looks_at_the_class() -> None:
    known = ClassCalibration(KNOWN.scores, np.arange(99) % 2, np.array([0, 1]))
    own = known.p_values(np.array([0.3, 0.3]), np.array([0, 1])).tolist()
    assert own[0] != own[1]
    rows = [StreamRow(f"file, row {label}", "a", 0.3, p, label) for label, p in enumerate(own)]
    assert scores_of(rows, known)[1].tolist() == own
    with pytest.raises(InputError, match="another guard's"):
        scores_of([row._replace(predicted=1 - (row.predicted or 0)) for row in rows], known)
    for label in (None, 2, -1):
        with pytest.raises(InputError, match="another guard's"):
            scores_of([rows[0]._replace(predicted=label)], known)
    unproven = scores_of([StreamRow("line 1", None, 0.3, None)], known)
    assert unproven[0].tolist() == [0.3]
    assert math.isnan(unproven[1][0])


def test_scores_of_another_guard_are_refused() -> None:
    own = float(KNOWN.p_values(np.array([0.3]))[0])
    rows = [StreamRow("file, row 1", "a", 0.3, own), StreamRow("file, row 2", "b", 0.3, own + 0.01)]
    assert scores_of(rows[:1], KNOWN)[0].tolist() == [0.3]
    with pytest.raises(InputError, match=r"file, row 2: the row says that score 0\.3 has p-value"):
        scores_of(rows, KNOWN)


def line(**changes: object) -> str:
    row = {"path": "a", "predicted": 1, "name": "cat", "score": 0.5, "p_value": 0.5, "verdict": "ID"}
    return json.dumps({**row, **changes}) + "\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (line() + '{"path": "b", "sco', "line 2 is not JSON"),
        (line() + "[1, 2]\n", "line 2 is not a JSON object"),
        (line() + "0.5\n", "line 2 is not a JSON object"),
        ('{"score": 0.5}\n', "has no path and no predicted and no p_value and no verdict"),
        (line(score="high"), 'score must be a number, got "high"'),
        (line(score=True), "score must be a number, got true"),
        (line(p_value=[1]), r"p_value must be a number, got \[1\]"),
        (line(score=None), "contradicts itself: score null, p_value 0.5"),
        (line(p_value=None), "contradicts itself"),
        (line(score=None, p_value=None), 'contradicts itself: score null, p_value null, verdict "ID"'),
        (line(score=math.nan, p_value=math.nan), "contradicts itself"),
        (line(verdict="unscorable"), "contradicts itself"),
        (line(verdict={"a": 1}), "contradicts itself"),
        (line(score="x" * 500), "must be a number, got .{40}…$"),
        (line(score=1) + '{"score": ' + "9" * 5_000 + "}", "line 2 is not JSON"),
        ("[" * 50_000, "has no path"),
        (line() + "[" * 50_000, "line 2 is not JSON that can be read: it is nested too deeply"),
        (HEADER + "a,1,cat,0.5,0.5,ID\na,1,cat\n", "row 2 has 3 cells, but the header has 6"),
        ("path,predicted,name,p_value,verdict\n", "has no score: expected rows as `theodolite score -o`"),
        (HEADER + "a,1,cat,high,0.5,ID\n", "row 1: score must be a number"),
        (HEADER + 'a,1,"' + ("x" * 50_000 + "\n") * 4 + '",0.5,0.5,ID\n', "is not CSV that can be read"),
        ("0.5\n0.6\nabc\n", 'line 3 is not a number: "abc"'),
        ("x" * (2**16 + 1), "line 1 is longer than 65,536 bytes"),
        (line() + "y" * (2**16 + 1), "line 2 is longer"),
    ],
)  # fmt: skip
def test_what_is_no_stream_is_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "stream"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match=said):
        list(read_stream(str(path)))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"PAR1", b"PAR1" + bytes(200) + b"PAR1"])
def test_bytes_that_are_no_stream_are_refused(content: bytes, tmp_path: Path) -> None:
    if content.startswith(b"PAR1"):
        pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
    (tmp_path / "stream").write_bytes(content)
    with pytest.raises(FormatError):
        list(read_stream(str(tmp_path / "stream")))


def test_a_stream_that_is_not_there_or_is_empty(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file of scores"):
        list(read_stream(str(tmp_path)))
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    assert list(read_stream(str(tmp_path / "empty"))) == []
