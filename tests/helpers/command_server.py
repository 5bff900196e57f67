"""Run `theodolite` commands in processes of their own, without importing torch anew for each.

One helper process imports everything and computes no score; every command is a fork of it. A command can be
killed after a while, or at its n-th flush to disk, and its peak memory is measured.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

HELPERS = Path(__file__).parent
KILLED = -signal.SIGKILL
# With these loaded a command begins in an instant; each imports the rooms above it.
ROOMS = ("theodolite.cli.app", "theodolite.paper.experiments", "theodolite.guard")
# What they import late, where it is installed.
USED = ("theodolite.report.page", "jinja2", "pydantic", "typer._adapters")


class Outcome(NamedTuple):
    """How a command ended: its exit code (negative: a signal), what it said, its peak memory in MiB."""

    code: int
    out: str
    err: str
    peak: float


def run(
    *args: str | Path,
    env: dict[str, str] | None = None,
    kill_after: float | None = None,
    kill_at_flush: int | None = None,
    interrupt_after: float | None = None,
    once: Path | None = None,
    full_disk: str | None = None,
    folder: Path | None = None,
    piped: str = "",
) -> Outcome:
    """Run one command to its end, or to the moment it is killed: so many seconds after it began, or after the
    file ``once`` was there. The disk is full when the file called ``full_disk`` is written. It runs in
    ``folder``, by default where the tests do; ``piped`` comes to it by a pipe."""
    request = {
        "args": [str(arg) for arg in args],
        "env": env or {},
        "kill_after": kill_after,
        "kill_at_flush": kill_at_flush,
        "interrupt_after": interrupt_after,
        "once": None if once is None else str(once),
        "full_disk": full_disk,
        "folder": None if folder is None else str(folder),
        "piped": piped,
    }
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return Outcome(**json.loads(server.stdout.readline()))


@functools.cache
def _server() -> subprocess.Popen[str]:
    paths = [str(HELPERS.parents[1] / "src"), str(HELPERS), os.environ.get("PYTHONPATH", "")]
    # One thread: the models are tiny, and threads that wait for each other suffer when the machine is busy.
    env = {"PYTHONPATH": os.pathsep.join(path for path in paths if path), "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    atexit.register(_stop, server)
    return server


def _stop(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    server.wait()
    server.stdout.close()


def _serve() -> None:
    """Answer requests, a line of JSON each, until the input ends."""
    for name in ("PIL.Image", "torch.utils.data", *ROOMS):
        importlib.import_module(name)
    for name in USED:
        with suppress(ImportError):
            importlib.import_module(name)
    # Keys of kept scores are made of the code itself, which is read once for all commands.
    importlib.import_module("theodolite.core.code").code_behind("benchmarks")
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)  # noqa: T201


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given, giving = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(giving)
            os.dup2(given, 0)
            sys.stdin = os.fdopen(0, encoding="utf-8")
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _become(request)
        os.close(given)
        with suppress(BrokenPipeError), os.fdopen(giving, "w", encoding="utf-8") as pipe:
            pipe.write(request["piped"])
        for name, number in (("kill_after", signal.SIGKILL), ("interrupt_after", signal.SIGINT)):
            if request[name] is not None:
                _await(request["once"], child)
                time.sleep(request[name])
                os.kill(child, number)
        _, status, usage = os.wait4(child, 0)
        out.seek(0)
        err.seek(0)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "out": out.read().decode(),
            "err": err.read().decode(),
            "peak": usage.ru_maxrss / 1024,
        }


def _await(path: str | None, child: int) -> None:
    """Until the file is there, or the child has ended."""
    while path is not None and not Path(path).exists():
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.005)


def _become(request: dict[str, Any]) -> None:
    """In the child: run the command and leave by its exit code."""
    from theodolite.cli.app import main

    os.environ.update(request["env"])
    # A shell that runs the tests in the background has them ignore Ctrl-C, and what they start too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["folder"] is not None:
        os.chdir(request["folder"])
    sys.argv = ["theodolite", *request["args"]]
    if request["kill_at_flush"] is not None:
        _die_at_flush(request["kill_at_flush"])
    if request["full_disk"] is not None:
        _fill_disk(request["full_disk"])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _die_at_flush(count: int) -> None:
    real, left = os.fsync, iter(range(count - 1))

    def fsync(handle: int) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
        real(handle)

    os.fsync = fsync  # type: ignore[assignment]


def _fill_disk(name: str) -> None:
    """The bytes of one file go to a device that is always full: the error is the kernel's own."""
    from theodolite.core import files, partial

    real = partial.partial_beside

    def partial_beside(path: Path) -> Path:
        beside = real(path)
        if path.name == name:
            beside.symlink_to("/dev/full")
        return beside

    vars(files)["partial_beside"] = partial_beside


if __name__ == "__main__":
    _serve()
