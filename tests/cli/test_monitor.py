"""`theodolite monitor`: what it says of streams, its state, its figure, its exit code."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from command_server import Outcome, run
from made_guards import WIDTH, clusters, fitted
from theodolite.cli import watching
from theodolite.guard import Guard, Monitor
from theodolite.report.score_files import open_sink
from theodolite.report.score_streams import StreamRow, read_stream

ALARMED = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guard, scores of 600 ID samples, and of as many of which the last 100 are strange."""
    folder = tmp_path_factory.mktemp("monitor")
    guard = fitted()
    guard.save(folder / "guard.safetensors")
    known = clusters(600, 5)[0]
    strange = torch.cat(
        [known[:500], 2 * torch.randn(100, WIDTH, generator=torch.Generator().manual_seed(1))]
    )
    for name, features in (("quiet", known), ("loud", strange)):
        np.save(folder / f"{name}.npy", features.numpy())
        for kind in ("csv", "jsonl"):
            with open_sink(folder / f"{name}.{kind}") as sink:
                for rows in guard.score_paths(folder / f"{name}.npy"):
                    sink.write(rows)
    return folder


def monitor(folder: Path, *arguments: str | Path, piped: str = "") -> Outcome:
    return run("monitor", folder / "guard.safetensors", *arguments, env={"COLUMNS": "200"}, piped=piped)


def test_a_quiet_stream_has_no_alarm(folder: Path) -> None:
    done = monitor(folder, folder / "quiet.csv", "--fail-on-alarm")
    assert done.code == 0, done.err
    assert "600 samples\n" in done.out
    assert "no alarm; of streams in which nothing changes at most 1 % ever raise one" in done.out
    assert "the alarm is at 100 : 1" in done.out
    assert "calibration data about 5 % or fewer would be" in done.out


def test_the_alarm_names_the_sample_and_is_what_python_gives(folder: Path, tmp_path: Path) -> None:
    guard = Guard.load(folder / "guard.safetensors")
    watched = guard.monitor(alarm=0.001)
    watched.update(guard.verdicts(np.load(folder / "loud.npy")).score)
    at = watched.alarmed_at
    assert at is not None
    figure = tmp_path / "evidence.over.time.png"
    done = monitor(folder, folder / "loud.jsonl", "--alarm", "0.001", "-o", figure, "--fail-on-alarm")
    assert done.code == ALARMED, done.err
    assert f"alarm: sample {at} (" in done.out
    assert f"loud.npy#{at - 1}; {folder / 'loud.jsonl'}, line {at})" in done.out
    assert f"alarm at sample {at}; of streams in which nothing changes at most 0.1 % ever" in done.out
    with Image.open(figure) as picture:
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)
    assert list(tmp_path.iterdir()) == [figure]
    assert monitor(folder, folder / "loud.jsonl", "--alarm", "0.001").code == 0


def test_a_state_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "loud.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, part in (("first", lines[:520]), ("second", lines[520:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(part), encoding="utf-8")
    halves = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    kind = ("--kind", "shiryaev-roberts")
    monitor(folder, *halves, *kind, "--state", tmp_path / "once")
    for half in halves:
        done = monitor(folder, half, *kind, "--state", tmp_path / "twice")
        assert done.code == 0, done.err
    assert (tmp_path / "twice").read_bytes() == (tmp_path / "once").read_bytes()
    assert "80 samples, after 520 before" in done.out
    assert "before these samples; where nothing changes one takes 100,000 samples or more" in done.out
    again = monitor(folder, folder / "quiet.csv", "--state", tmp_path / "twice", "--reset", "--fail-on-alarm")
    assert "no alarm" in again.out
    assert again.code == 0


def test_what_does_not_go_with_the_state_is_refused_and_leaves_it(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    monitor(folder, folder / "quiet.csv", "--state", state)
    kept = state.read_bytes()
    for option, value in (("--alarm", "0.5"), ("--kind", "shiryaev-roberts"), ("--seed", "3")):
        done = monitor(folder, folder / "quiet.csv", "--state", state, option, value)
        assert done.code == 2
        assert f"{option[2:]} {value} does not go with" in done.err
    other = run("monitor", "imagenet-lite0", folder / "quiet.csv", "--state", state)
    assert other.code == 2
    assert "the state of a monitor with other calibration scores" in other.err
    broken = tmp_path / "broken.jsonl"
    broken.write_text((folder / "loud.jsonl").read_text(encoding="utf-8") + "{", encoding="utf-8")
    assert monitor(folder, broken, "--state", state).code == 2
    assert state.read_bytes() == kept, "a stream that fails half-way counts for nothing"


def test_what_cannot_be_is_one_line_of_error(folder: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ((folder / "quiet.csv", "-o", tmp_path / "evidence.txt"), "figures are written as .png, .svg, .pdf"),
        ((folder / "nothing.csv",), "no such file of scores"),
        ((folder / "quiet.csv", "--kind", "cusum"), "kind must be"),
        ((folder / "quiet.csv", "--alarm", "1.5"), "alarm must lie between 0 and 1"),
    ):
        done = monitor(folder, *arguments)
        assert done.code == 2, arguments
        assert said in done.err
        assert "Traceback" not in done.err
    foreign = run("monitor", "imagenet-lite0", folder / "quiet.csv")
    assert foreign.code == 2
    assert "another guard's" in foreign.err


def test_bare_numbers_and_samples_without_a_score_are_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scores.txt").write_text("1.1\nnan\n1.2\n", encoding="utf-8")
    done = monitor(folder, tmp_path / "scores.txt")
    assert "3 samples" in done.out
    assert "1 of all without a score, each counted as stranger than every score" in done.out
    assert "2 scores came without p-values: nothing shows that they are this guard's" in done.out


class Keyboard:
    """Rows, and then somebody presses Ctrl-C."""

    def __init__(self, rows: list[StreamRow]) -> None:
        self.rows = rows

    def __call__(self, _: str) -> Iterator[StreamRow]:
        yield from self.rows
        raise KeyboardInterrupt


def test_what_came_by_a_pipe_is_kept_and_an_interrupt_is_its_end(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file nothing counts before its end: it can be read again."""
    guard, said = Guard.load(folder / "guard.safetensors"), io.StringIO()
    rows = list(read_stream(str(folder / "quiet.csv"))) * 2
    monkeypatch.setattr(watching, "read_stream", Keyboard(rows))
    monitor, state = guard.monitor(), tmp_path / "state"
    watch = watching.Watch(monitor, guard.calibration, 0.05, state, Console(file=said, width=200))
    watch.follow("-")
    watch.print(None)
    assert "interrupted: what had been read counts\n1,200 samples" in said.getvalue()
    assert Monitor.load(state, guard.calibration).seen == 1_000, "written on the way, should it be killed"
    with pytest.raises(KeyboardInterrupt):
        watch.follow("quiet.csv")


def test_a_pipe_from_score_to_monitor(folder: Path, tmp_path: Path) -> None:
    """The state holds what the file would have given."""
    state = tmp_path / "state"
    scored = run("score", folder / "guard.safetensors", folder / "loud.npy", "-o", "-", "--format", "jsonl")
    assert scored.code == 0, scored.err
    done = monitor(folder, "-", "--state", state, "--fail-on-alarm", piped=scored.out)
    assert done.code == ALARMED, done.err
    assert "standard input, line 5" in done.out
    monitor(folder, folder / "loud.jsonl", "--state", tmp_path / "file")
    assert state.read_bytes() == (tmp_path / "file").read_bytes()
