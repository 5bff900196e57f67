"""The end of a real process: what was accepted is answered, then it exits with 0."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import MODEL, live, picture, picture_guard, png
from small_models import DELAY
from theodolite.core.errors import InputError
from theodolite.serve import Service, judging_of, run

HELPERS = Path(__file__).parents[1] / "helpers"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guard") / "guard.safetensors"
    picture_guard().save(path)
    return path


@contextmanager
def served(file: Path, *options: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves a guard, and its address."""
    source = Path(__file__).parents[2] / "src"
    paths = os.pathsep.join([str(source), str(HELPERS)])
    process = subprocess.Popen(
        [sys.executable, "-m", "theodolite", "serve", str(file), "--model", MODEL, "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **env},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        while httpx.get(f"{found[0]}/readyz").status_code != 200:
            time.sleep(0.02)
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def waiting(address: str) -> int:
    """Requests of two pictures without an answer."""
    found = re.search(r"^theodolite_queue_depth (\S+)$", httpx.get(f"{address}/metrics").text, re.M)
    assert found
    return int(float(found[1])) // 2


def test_no_accepted_request_is_lost(file: Path) -> None:
    body = [("pictures", (f"{place}.png", png(picture(place)))) for place in range(2)]
    with (
        served(file, "--batch-size", "4", **{DELAY: "0.7"}) as (process, address),
        ThreadPoolExecutor(8) as pool,
    ):
        asked = [pool.submit(httpx.post, f"{address}/v1/score", files=body, timeout=30) for _ in range(8)]
        while waiting(address) + sum(future.done() for future in asked) < 8:
            time.sleep(0.01)
        assert waiting(address) > 1, "they were answered before the signal"
        process.send_signal(signal.SIGTERM)
        answers = [future.result() for future in asked]
        assert [answer.status_code for answer in answers] == [200] * 8
        assert all(len(answer.json()["results"]) == 2 for answer in answers)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


def test_a_body_that_is_half_sent_may_still_come(file: Path) -> None:
    def slowly() -> Iterator[bytes]:
        content = b'{"features": [[' + b", ".join([b"0.5"] * 16) + b"]]}"
        yield content[:20]
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        yield content[20:]

    with served(file) as (process, address):
        kind = {"content-type": "application/json"}
        answer = httpx.post(f"{address}/v1/score", content=slowly(), headers=kind, timeout=20)
        assert answer.status_code == 200
        assert process.wait(20) == 0


def test_loading_is_not_ready_and_a_failure_ends_it() -> None:
    guard = picture_guard()
    service = Service(judging_of(guard))
    real = service.judging.warm
    loading = True

    def warm() -> None:
        while loading:
            time.sleep(0.01)
        real()

    service.judging.warm = warm  # type: ignore[method-assign]
    with live(service, wait=False) as address:
        assert httpx.get(f"{address}/healthz").status_code == 200
        ready = httpx.get(f"{address}/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "loading"})
        early = httpx.post(f"{address}/v1/score", json={"features": [[0.0] * 16]})
        assert early.status_code == 503
        assert early.headers["retry-after"] == "1"
        loading = False
        while httpx.get(f"{address}/readyz").status_code != 200:
            time.sleep(0.01)
        service.drain()
        assert httpx.get(f"{address}/readyz").json() == {"status": "draining"}


def lives(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz").is_success
    except httpx.TransportError:
        return False


def test_a_model_that_cannot_be_loaded_ends_the_service(file: Path) -> None:
    service = Service(judging_of(file))  # its model is code, and nobody named it
    with live(service, wait=False) as address:
        ended = time.monotonic() + 20
        while time.monotonic() < ended and lives(address):
            time.sleep(0.02)
        assert not lives(address)
    assert isinstance(service.failure, InputError)
    assert "name it yourself" in str(service.failure)


def test_running_ends_with_the_reason(file: Path) -> None:
    told: list[str] = []
    with pytest.raises(InputError, match="name it yourself"):
        run(Service(judging_of(file)), "localhost", 0, started=told.append)
    assert re.fullmatch(r"http://(127\.0\.0\.1|\[::1\]):\d+", told[0])


def test_told_to_stop_before_it_has_begun() -> None:
    """A picture must not be called unreadable because there is no model yet."""
    service = Service(judging_of(picture_guard()))
    going = True

    def warm() -> None:
        while going:
            time.sleep(0.01)

    service.judging.warm = warm  # type: ignore[method-assign]
    with live(service, wait=False) as address:
        service.drain()
        files = [("pictures", ("a.png", png(picture(0))))]
        assert httpx.post(f"{address}/v1/score", files=files).status_code == 503
        assert httpx.get(f"{address}/readyz").json() == {"status": "draining"}
        going = False
