"""Clients that hang, dawdle or vanish: they are closed in the end, and nobody else waits for them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import features_of_noise, live, npy, picture, picture_guard, png
from small_models import DELAY
from theodolite import Guard
from theodolite.serve import Bounds, Service, judging_of

BODY = npy(features_of_noise()[:1].numpy())
HEADER = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)


@pytest.fixture(scope="module")
def guard() -> Guard:
    return picture_guard()


@contextmanager
def connected(address: str, *sent: bytes) -> Iterator[socket.socket]:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        for part in sent:
            client.sendall(part)
        yield client


def answered(address: str) -> float:
    """The seconds that an ordinary request takes."""
    started = time.monotonic()
    assert httpx.post(
        f"{address}/v1/score", content=BODY, headers={"content-type": "application/x-npy"}
    ).is_success
    return time.monotonic() - started


def closed(client: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    received = b""
    try:
        while piece := client.recv(4096):
            received += piece
    except ConnectionResetError:
        pass
    return received


def dawdle(client: socket.socket, piece: bytes) -> None:
    """Send a little now and then, for ten seconds if the other end lets it."""
    for _ in range(100):
        client.sendall(piece)
        time.sleep(0.1)


def test_many_that_hang_delay_nobody(guard: Guard) -> None:
    """Silent ones, half a header, half a body: more of them than connections may be open."""
    bounds = Bounds(connections=30, header_seconds=20, body_seconds=20)
    with live(Service(judging_of(guard), bounds=bounds)) as address, ExitStack() as hanging:
        for sent in [(), (HEADER,), (HEADER, LENGTH, BODY[:50])] * 8 + [()] * 30:
            hanging.enter_context(connected(address, *sent))
        assert max(answered(address) for _ in range(20)) < 2


def test_when_all_connections_are_busy_the_next_is_told_so(guard: Guard) -> None:
    bounds = Bounds(connections=4, body_seconds=20)
    with live(Service(judging_of(guard), bounds=bounds)) as address, ExitStack() as hanging:
        for _ in range(4):
            hanging.enter_context(connected(address, HEADER, LENGTH, BODY[:50]))
        time.sleep(0.3)
        with connected(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
            said = closed(client)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in said


def test_a_header_that_never_ends_is_closed(guard: Guard) -> None:
    """A byte now and then does not keep it open."""
    with live(Service(judging_of(guard), bounds=Bounds(header_seconds=0.5))) as address:
        with connected(address) as silent, connected(address, HEADER) as slow:
            started = time.monotonic()
            with pytest.raises(OSError):
                dawdle(slow, b"X")
            assert closed(silent) == b""
            assert time.monotonic() - started < 4
        # The same after an answer, on a connection that is kept.
        with connected(address, HEADER, LENGTH, BODY) as kept:
            assert kept.recv(4096).startswith(b"HTTP/1.1 200 ")
            kept.sendall(b"GET /")
            started = time.monotonic()
            closed(kept)
            assert 0.2 < time.monotonic() - started < 4


def test_a_body_that_never_ends_is_refused(guard: Guard) -> None:
    with live(Service(judging_of(guard), bounds=Bounds(body_seconds=0.4))) as address:
        with connected(address, HEADER, LENGTH, BODY[:30]) as client:
            said = closed(client)
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"not complete after 0.4 seconds" in said
        with connected(address, HEADER, b"Transfer-Encoding: chunked\r\n\r\n", b"5\r\nabcde\r\n") as client:
            assert closed(client).startswith(b"HTTP/1.1 408 ")


def test_what_follows_an_early_answer_is_not_read_for_ever(guard: Guard) -> None:
    bounds = Bounds(request_bytes=1000, header_seconds=0.5)
    long = b"Content-Length: 1000000000\r\n\r\n"
    with (
        live(Service(judging_of(guard), bounds=bounds)) as address,
        connected(address, HEADER, long) as client,
    ):
        assert client.recv(4096).startswith(b"HTTP/1.1 413 ")
        started = time.monotonic()
        with pytest.raises(OSError):
            dawdle(client, bytes(1000))
        assert time.monotonic() - started < 5


def test_those_that_vanish_are_forgotten(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty requests that would take ten seconds; their clients leave, and the next one is answered soon."""
    boundary = b'--b\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
    body = boundary + png(picture(0)) + b"\r\n--b--\r\n"
    header = HEADER.replace(b"application/x-npy", b"multipart/form-data; boundary=b")
    with live(Service(judging_of(guard), bounds=Bounds(batch=1))) as address:
        monkeypatch.setenv(DELAY, "0.5")
        for _ in range(20):
            with connected(address, header, b"Content-Length: %d\r\n\r\n" % len(body), body):
                time.sleep(0.01)
        with connected(address, HEADER, LENGTH, BODY[:40]):
            pass
        assert answered(address) < 4
        text = httpx.get(f"{address}/metrics").text
        assert 'theodolite_requests_total{code="499",path="/v1/score"} 21.0' in text
        assert "theodolite_queue_depth 0.0" in text
        monkeypatch.setenv(DELAY, "0")
