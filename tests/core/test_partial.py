"""Files in the making: writers do not meet, and what killed ones left is swept up."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from pathlib import Path

import pytest

from theodolite.core import partial
from theodolite.core.files import replacing, write_bytes
from theodolite.core.partial import partial_beside

ENDED = 2**22 + 1  # above the largest process number of Linux


def write_slowly(path: str, byte: bytes, ready: str) -> None:
    """A file of one byte repeated; half of it is on disk before the other process may begin."""
    with replacing(Path(path)) as unfinished, unfinished.open("wb") as file:
        file.write(byte * 1000)
        file.flush()
        Path(ready).touch()
        time.sleep(0.2)
        file.write(byte * 1000)


def test_two_processes_write_the_same_file_one_after_the_other(tmp_path: Path) -> None:
    """With one name for both the first one's file was cut by the second, whose own then was gone."""
    context = multiprocessing.get_context("fork")
    writers = []
    for byte in (b"a", b"b"):
        ready = tmp_path / f"ready-{byte.decode()}"
        writer = context.Process(target=write_slowly, args=(str(tmp_path / "file"), byte, str(ready)))
        writer.start()
        writers.append(writer)
        while not ready.exists():
            time.sleep(0.005)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert (tmp_path / "file").read_bytes() in (b"a" * 2000, b"b" * 2000)
    assert list(tmp_path.glob("*.partial")) == []


def test_threads_have_names_of_their_own(tmp_path: Path) -> None:
    names = [partial_beside(tmp_path / "file")]
    thread = threading.Thread(target=lambda: names.append(partial_beside(tmp_path / "file")))
    thread.start()
    thread.join()
    assert len(set(names)) == 2
    assert all(name.suffix == ".partial" for name in names)


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    machine = partial._MACHINE
    names = {
        "ended": f"file.{machine}-{ENDED}.partial",
        "thread of an ended one": f"file.{machine}-{ENDED}-7.partial",
        "alive": f"file.{machine}-{os.getppid()}.partial",
        "another machine's": f"file.ffffff-{ENDED}.partial",
        "of 0.1.0": "file.partial",
        "another file's": f"file.txt.{machine}-{ENDED}.partial",
        "somebody's own": "file.notes.partial",
    }
    for name in names.values():
        (tmp_path / name).write_bytes(b"half")
    write_bytes(tmp_path / "file", b"whole")
    left = {name for name in names.values() if (tmp_path / name).exists()}
    assert left == set(names.values()) - {names["ended"], names["thread of an ended one"]}
    old = time.time() - 2 * 24 * 3600
    for name in left:
        os.utime(tmp_path / name, (old, old))
    write_bytes(tmp_path / "file", b"whole")
    left = {name for name in names.values() if (tmp_path / name).exists()}
    assert left == {names["alive"], names["another file's"], names["somebody's own"]}


@pytest.mark.parametrize("name", ["file[1].csv", "a*b", "?"])
def test_names_that_look_like_patterns(tmp_path: Path, name: str) -> None:
    stale = tmp_path / f"{name}.{partial._MACHINE}-{ENDED}.partial"
    stale.touch()
    write_bytes(tmp_path / name, b"x")
    assert [path.name for path in tmp_path.iterdir()] == [name]
