"""The OpenAPI description is kept: schemathesis makes requests from it, good and bad, for a live service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from live_service import live, picture_guard
from theodolite.serve import Bounds, Service, judging_of
from theodolite.serve.door import access

TOKEN = "a-token-for-this-test"
TESTS = Path(__file__).parents[1]


def schemathesis(address: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    paths = [str(TESTS.parent / "src"), str(TESTS / "helpers")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "SCHEMATHESIS_HOOKS": "npy_bodies"}
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json", "--no-color"]
    seeded = ["--max-examples", "8", "--seed", "1", "--generation-database", "none"]
    return subprocess.run(
        [*command, *seeded, *options], env=env, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_service_keeps_to_its_description(tmp_path: Path) -> None:
    service = Service(judging_of(picture_guard()), bounds=Bounds(rows=20, pictures=4))
    with live(service, access("127.0.0.1", TOKEN)) as address:
        done = schemathesis(address, tmp_path, "--header", f"Authorization: Bearer {TOKEN}")
        counted = httpx.get(f"{address}/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'theodolite_requests_total{code="200",path="/v1/score"}' in counted
    assert 'code="500"' not in counted
