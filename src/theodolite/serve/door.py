"""Who may come in: known hosts, no foreign pages, and whoever has the token. All that leaves is counted here.

On the loopback address there is no token, but there are browsers: a page from elsewhere could send requests
here, or let its own name point here (DNS rebinding). So requests must name a host that is ours, and those
that a page sends must come from our own.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.errors import InputError
from .metrics import Metrics

LOCAL = ("localhost", "127.0.0.1", "::1")
PATHS = ("/", "/v1/score", "/v1/guard", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json")
_GUARDED = ("/v1/", "/metrics")
_SHORTEST_TOKEN = 16
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
    "blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """The token, if there is one, and the names that this host may be called by; with a token, by any."""

    token: str | None = None
    hosts: tuple[str, ...] = LOCAL

    def __repr__(self) -> str:
        return f"Access(token={'set' if self.token else None}, hosts={self.hosts})"


def access(host: str, token: str | None, allowed: Sequence[str] = ()) -> Access:
    """Who may come in at an address. Beyond this machine nobody may without a token."""
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(
            f"the token must have at least {_SHORTEST_TOKEN} printable ASCII characters: for example what "
            f"`openssl rand -hex 32` prints"
        )
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host {host} can be reached from other machines: set the variable THEODOLITE_TOKEN or name a "
            f"--token-file, which clients then send as `Authorization: Bearer …`; or leave out --host"
        )
    return Access(token, (*LOCAL, host.lower(), *(name.lower() for name in allowed)))


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Door:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, *, access: Access, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._token = None if access.token is None else _digest(access.token)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in PATHS else "other"
        started, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refused = self._refused(scope)
            if refused is None:
                await self._app(scope, receive, sent)
            else:
                await _refuse(sent, *refused)
        finally:
            self._metrics.request(path, status, time.perf_counter() - started)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._token is None and _name(host) not in self._access.hosts:
            return 403, "this host is not called by that name here: --allow-host NAME lets it be"
        origin = headers.get("origin")
        if origin is not None and origin.partition("//")[2].lower() != host.lower():
            return 403, "requests from pages of other hosts are not answered"
        if self._token is not None and scope["path"].startswith(_GUARDED):
            scheme, _, token = headers.get("authorization", "").partition(" ")
            right = hmac.compare_digest(_digest(token.strip()), self._token)
            if scheme.lower() != "bearer" or not right:
                return 401, "the token is missing or wrong: send `Authorization: Bearer TOKEN`"
        return None


async def _refuse(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _digest(token: str) -> bytes:
    """Tokens are compared by their digests: all of one length."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
