"""`theodolite serve` before it serves: its options, its errors, and what describes it outside of Python."""

from __future__ import annotations

import inspect
import re
import shlex
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from made_guards import fitted
from theodolite.cli.serve import serve
from theodolite.core.errors import InputError

ROOT = Path(__file__).parents[2]
TOKEN = "THEODOLITE_TOKEN"
WITHOUT = """
import sys
sys.modules[{missing!r}] = None
import theodolite
from theodolite.cli.app import main
sys.argv = ["theodolite", "serve", "imagenet-lite0"]
main()
"""


@pytest.mark.parametrize(
    ("missing", "package"),
    [("fastapi", "fastapi"), ("uvicorn", "uvicorn"), ("prometheus_client", "prometheus-client")],
)
def test_without_the_extra_one_line_says_so(missing: str, package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip() == f"error: {package} is not installed: pip install 'theodolite[serve]'"


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    path = tmp_path_factory.mktemp("guard") / "guard.safetensors"
    fitted().save(path)
    return path


def test_addresses_of_others_need_a_token(
    guard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "")
    with pytest.raises(InputError, match=r"--host 0\.0\.0\.0 can be reached from other machines"):
        serve(str(guard), host="0.0.0.0")
    short = tmp_path / "token"
    short.write_text("abc-secret\n")
    with pytest.raises(InputError, match="at least 16") as refused:
        serve(str(guard), host="0.0.0.0", token_file=short)
    assert "abc-secret" not in str(refused.value)
    with pytest.raises(InputError, match=r"--token-file .* cannot be read"):
        serve(str(guard), token_file=tmp_path / "none")


@pytest.mark.filterwarnings("ignore:the guard knows no model")
def test_what_cannot_be_served_is_said_at_once(guard: Path) -> None:
    with pytest.raises(InputError, match=r"no such file: none\.safetensors"):
        serve("none.safetensors")
    with pytest.raises(InputError, match="knows no model"):
        serve(str(guard), model="python:a:b")
    with pytest.raises(InputError, match="rows must be at least 1"):
        serve(str(guard), max_rows=0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--port {port}: "):
            serve(str(guard), port=port)


def options() -> dict[str, object]:
    return {name: part.default for name, part in inspect.signature(serve).parameters.items()}


def test_the_command_has_the_defaults_of_the_bounds() -> None:
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from theodolite.serve import Bounds

    own = {name: value for name, value in options().items() if re.match("max_|batch_|.*timeout", name)}
    assert sorted(own.values()) == sorted(part.default for part in fields(Bounds))  # type: ignore[type-var]


def test_the_page_on_serving_says_every_bound() -> None:
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    shown = re.findall(r"\| ([\d,]+)( MiB)? \| `--([\w-]+)` \|", text)
    told = {
        option.replace("-", "_"): float(number.replace(",", "")) * (2**20 if unit else 1)
        for number, unit, option in shown
    }
    assert told == {name: value for name, value in options().items() if re.match("max_|.*timeout", name)}


def test_the_container_runs_a_command_that_exists() -> None:
    """There is no engine here to build it: its command, files and user are compared with what there is."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    entry = next(line for line in lines if line.startswith("ENTRYPOINT"))
    command = re.findall(r'"([^"]*)"', entry)
    assert command[:2] == ["theodolite", "serve"]
    known = {f"--{name.replace('_', '-')}" for name in options()}
    assert {word for word in command if word.startswith("--")} <= known
    copied = [word for line in lines if line.startswith("COPY") for word in shlex.split(line)[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in copied} == {line for line in ignored if line.startswith("!")}
    assert any(line.startswith("USER ") and "root" not in line for line in lines)
    extras = re.search(r"'\.\[([\w,]+)\]'", "\n".join(lines))
    assert extras is not None
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras[1].split(","))
    assert len(lines) <= 14
