"""Starting and stopping: an address, an HTTP server on it, and an end that loses no accepted request."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from PIL import Image

from ..core.errors import InputError
from .app import make_app
from .door import Access, access
from .protocol import Connections, ImpatientProtocol
from .service import Service

# Between the last connection and the first one that is closed: what is on its way is still read.
_LAST_WORDS = 0.2
# How long after the last answer could have been given the process ends in any case.
_SLACK = 5


def run(
    service: Service,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    entry: Access | None = None,
    access_log: bool = False,
    started: Callable[[str], None] = lambda _address: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then answer what was accepted and return.

    ``started`` gets the address once it listens; the model may still be loading. If it cannot be loaded the
    service ends with that error.
    """
    entry = entry or access(host, None)
    # What is too large is refused by its size, whatever Pillow would warn of.
    warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    with listening(host, port) as listener:
        server = server_of(service, entry, access_log=access_log)
        started(address_of(listener))
        asyncio.run(server.serve(sockets=[listener]))
    if service.failure is not None:
        raise service.failure


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens; port 0 is any free one."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(place[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} --port {port}: {error}. Choose another address or port") from error
    with listener:
        yield listener


def server_of(service: Service, entry: Access, *, access_log: bool = False) -> Server:
    """The server, not yet running: `Server.serve` does that, `Server.stop` ends it."""
    bounds = service.bounds
    connections = Connections(bounds.connections, bounds.header_seconds)
    server: Server
    app = make_app(service, entry, ended=lambda: server.stop())
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(ImpatientProtocol, among=connections)),
        ws="none",
        lifespan="on",
        loop="asyncio",
        interface="asgi3",
        log_level="info" if access_log else "warning",
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(bounds.body_seconds + bounds.answer_seconds) + _SLACK,
    )
    server = Server(config, service)
    return server


class Server(uvicorn.Server):
    """uvicorn's, that ends well when it is told to end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def stop(self) -> None:
        """Take no more connections, answer what was accepted, end."""
        self._service.drain()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.drain()
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but the signal is not raised again: to stop on request is no failure."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What clients had sent when the last connection was taken is read before any is closed."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(_LAST_WORDS)
        await super().shutdown(sockets)


def address_of(listener: socket.socket) -> str:
    """Where a socket can be reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
