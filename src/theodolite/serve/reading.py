"""Bodies are read in pieces, each counted: what is too large, too slow or too much is refused early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request

from .refusal import Refusal


class Held:
    """The bytes that all requests hold together, and how many they may."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """One request's part, given back when it is answered."""
        share = Share(self)
        try:
            yield share
        finally:
            self._bytes -= share.bytes

    def add(self, more: int) -> None:
        if self._bytes + more > self._most:
            raise Refusal(503, "too many bytes of other requests are being held: try again later")
        self._bytes += more


class Share:
    """The bytes that one request holds."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.bytes = 0

    def add(self, more: int) -> None:
        self._held.add(more)
        self.bytes += more


async def read_body(request: Request, share: Share, *, most: int, seconds: float) -> bytes:
    """The whole body, of at most so many bytes; a length that the client announces is refused at once."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > most:
        raise _too_large(most)
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                if share.bytes + len(piece) > most:
                    raise _too_large(most)
                share.add(len(piece))
                pieces.append(piece)
    except TimeoutError as error:
        raise Refusal(408, f"the body was not complete after {seconds:g} seconds") from error
    return b"".join(pieces)


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body has more than {most:,} bytes: send less at a time")
