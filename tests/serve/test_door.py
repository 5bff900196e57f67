"""Who is let in: hosts, pages of others, tokens; and what every answer says to a browser."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from live_service import live, picture, picture_guard, png
from theodolite.core.errors import InputError
from theodolite.serve import Service, judging_of
from theodolite.serve.door import Access, access, is_loopback

TOKEN = "0123456789abcdef-secret"
FORM = [("pictures", ("a.png", png(picture(0))))]


@pytest.fixture(scope="module")
def local() -> Iterator[str]:
    entry = access("127.0.0.1", None, ["guard.example.org"])
    with live(Service(judging_of(picture_guard())), entry) as address:
        yield address


@pytest.fixture(scope="module")
def tokened() -> Iterator[str]:
    with live(Service(judging_of(picture_guard())), access("127.0.0.1", TOKEN)) as address:
        yield address


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1234", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("guard.example.org", 200),
        ("Guard.Example.ORG:443", 200),
        ("evil.example.org", 403),
        ("127.0.0.1.evil.example.org", 403),
        ("localhost@evil.example.org", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_only_hosts_that_are_ours(local: str, host: str, status: int) -> None:
    """A name of somebody else that points here (DNS rebinding) gets no answer."""
    for path in ("/", "/v1/guard", "/metrics", "/healthz", "/openapi.json"):
        assert httpx.get(local + path, headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8000", 200),
        ("https://localhost:8000", 200),
        ("http://localhost:9000", 403),
        ("http://evil.example.org", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_pages_of_others_are_refused(local: str, origin: str, status: int) -> None:
    headers = {"host": "localhost:8000", "origin": origin}
    answer = httpx.post(f"{local}/v1/score", files=FORM, headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers
    preflight = httpx.options(f"{local}/v1/score", headers=headers)
    assert preflight.status_code in (403, 405)


def test_the_token(tokened: str) -> None:
    guarded = ("/v1/guard", "/v1/score", "/metrics", "/v1/nothing")
    for header in (None, "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"):
        headers = {} if header is None else {b"authorization": header.encode()}
        for path in guarded:
            answer = httpx.get(tokened + path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in answer.text
    right = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.post(f"{tokened}/v1/score", files=FORM, headers=right).status_code == 200
    assert httpx.post(f"{tokened}/v1/score", files=FORM).status_code == 401
    assert httpx.get(f"{tokened}/metrics", headers=right).status_code == 200
    for path in ("/healthz", "/readyz", "/", "/docs", "/openapi.json", "/assets/page.js"):
        assert httpx.get(tokened + path).status_code == 200
    # With a token any name will do, for a proxy; another page's origin will not.
    named = {**right, "host": "guard.example.org"}
    assert httpx.get(f"{tokened}/v1/guard", headers=named).status_code == 200
    foreign = {**named, "origin": "https://evil.example.org"}
    assert httpx.get(f"{tokened}/v1/guard", headers=foreign).status_code == 403


def test_the_description_says_where_the_token_is_wanted(tokened: str, local: str) -> None:
    paths = httpx.get(f"{tokened}/openapi.json").json()["paths"]
    wanted = {path for path, methods in paths.items() if any("security" in one for one in methods.values())}
    assert wanted == {"/v1/score", "/v1/guard", "/metrics"}
    assert "security" not in httpx.get(f"{local}/openapi.json").text


def test_every_answer_is_strict_with_browsers(local: str) -> None:
    for path in ("/", "/docs", "/v1/guard", "/nothing"):
        headers = httpx.get(local + path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_beyond_this_machine_only_with_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(InputError, match=r"THEODOLITE_TOKEN.*--token-file"):
            access(host, None)
        assert access(host, TOKEN).token == TOKEN
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"):
        assert is_loopback(host)
        assert access(host, None).token is None


def test_tokens_that_could_be_guessed() -> None:
    for token in ("", "short", "with a \n newline in it", "ü" * 20):
        with pytest.raises(InputError, match="at least 16 printable ASCII") as refused:
            access("127.0.0.1", token)
        assert not token or token not in str(refused.value)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(Access(TOKEN))


def test_metrics_count_by_path_and_code(local: str) -> None:
    httpx.get(f"{local}/some/thing")
    httpx.post(f"{local}/v1/score", files=FORM)
    httpx.post(f"{local}/v1/score", content=b"{", headers={"content-type": "application/json"})
    text = httpx.get(f"{local}/metrics").text
    for line in (
        'theodolite_requests_total{code="404",path="other"}',
        'theodolite_requests_total{code="400",path="/v1/score"}',
        'theodolite_request_seconds_bucket{le="0.005",path="/v1/score"}',
        "theodolite_batch_size_count",
        'theodolite_verdicts_total{verdict="',
        "theodolite_queue_depth 0.0",
        "theodolite_ready 1.0",
        "process_resident_memory_bytes",
    ):
        assert line in text
    assert "some/thing" not in text
