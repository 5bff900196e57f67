"""Connections that say nothing, or never finish, are closed: they must not take the place of others.

uvicorn waits for a request's header as long as the client likes, and reads on after it has answered. Here
both have an end, and when all connections are taken the one that has been silent for longest makes room.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from .refusal import RETRY_AFTER

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Retry-After: %d\r\nConnection: close\r\n\r\n%s"
)
_BUSY_BODY = b'{"detail":"all connections are taken: try again later"}'


class Connections:
    """Connections without a request, in the order they fell silent; the others are being answered."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self.silent: dict[ImpatientProtocol, None] = {}


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 by h11, with a clock that runs whenever there is no request to be answered."""

    def __init__(self, *given: Any, among: Connections, **named: Any) -> None:
        super().__init__(*given, **named)
        self._among = among
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._among.most:
            silent = (one for one in self._among.silent if not one.transport.get_write_buffer_size())
            oldest = next(silent, None)
            if oldest is None:
                transport.write(_BUSY % (len(_BUSY_BODY), RETRY_AFTER, _BUSY_BODY))
                transport.close()
                return
            oldest._give_up()
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_clock()
        else:  # part of a header, or of a body that was answered before its end
            self._start_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._start_clock()

    def _start_clock(self) -> None:
        if self._clock is None and not self.transport.is_closing():
            self._among.silent[self] = None
            self._clock = self.loop.call_later(self._among.seconds, self._give_up)

    def _stop_clock(self) -> None:
        self._among.silent.pop(self, None)
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        """Close without waiting for what the client has not taken."""
        self._stop_clock()
        self.transport.abort()
