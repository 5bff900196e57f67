"""The service without its addresses: from the body of a request to the answer, and the state in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect
from torch import Tensor

from ..core.errors import InputError, UnreadableImageError
from ..guard.calibration import flagged
from ..guard.verdicts import ID, OOD
from .answers import Answer, Entry, Writer, unreadable
from .batching import Batcher, Room
from .bounds import Bounds
from .drift import Watching
from .judging import Judging
from .metrics import Metrics
from .parts import Part, pictures_in, rows_in_json, rows_in_npy
from .pictures import prepared_picture
from .reading import Held, read_body
from .refusal import Refusal

FORM, JSON = "multipart/form-data", "application/json"
NPY = ("application/x-npy", "application/octet-stream")
Result = TypeVar("Result")


class Asked(NamedTuple):
    """What a client wants to know beside the verdicts at the guard's own rate."""

    false_alarm_rate: float | None = None
    explain: bool = False


class Service:
    """Answers requests with verdicts. Loading, ready, or draining: only when ready are samples judged.

    Bodies are parsed and pictures decoded in a few threads, batches judged in one of its own.
    """

    def __init__(
        self,
        judging: Judging,
        *,
        bounds: Bounds | None = None,
        threads: int | None = None,
        watching: Watching | None = None,
    ) -> None:
        self.judging = judging
        self.watching = watching
        self.bounds = bounds or Bounds()
        self.metrics = Metrics()
        self._loaded = self._draining = False
        self.failure: BaseException | None = None
        self._held = Held(self.bounds.waiting_bytes)
        self._threads = threads or max(2, min(8, os.cpu_count() or 1))

    @asynccontextmanager
    async def running(self, ended: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
        """Load and warm up in the background, judge until the end. ``ended`` is called if either fails."""
        if self.watching is not None:
            self.watching.begin(self.metrics)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="decode")
        one = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._batcher = Batcher(
            lambda inputs, explain: self.judging.judge(inputs, explain=explain),
            one,
            self.bounds,
            self.metrics,
        )
        tasks = [
            asyncio.create_task(self._or_end(self._load(one), ended)),
            asyncio.create_task(self._or_end(self._batcher.run(), ended)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            for pool in (self._pool, one):
                pool.shutdown(wait=False, cancel_futures=True)
            if self.watching is not None:
                await asyncio.to_thread(self.watching.close)

    async def _or_end(self, work: Awaitable[None], ended: Callable[[], None]) -> None:
        """Without the model, or whatever has batches judged, there is no service."""
        try:
            await work
        except Exception as error:
            self.failure = error
            ended()

    async def _load(self, thread: ThreadPoolExecutor) -> None:
        await asyncio.get_running_loop().run_in_executor(thread, self.judging.warm)
        self._loaded = True
        self.metrics.ready(not self._draining)

    @property
    def status(self) -> str:
        """loading, ready or draining."""
        return "draining" if self._draining else "ready" if self._loaded else "loading"

    def drain(self) -> None:
        """Answer what was accepted, and say that nothing more should come."""
        self._draining = True
        self.metrics.ready(False)

    async def score(self, request: Request, asked: Asked) -> bytes:
        """The answer to a request, as JSON; a `Refusal` where there is none."""
        if not self._loaded:
            raise Refusal(503, "the model is being loaded: try again later")
        rate = self.judging.false_alarm_rate if asked.false_alarm_rate is None else asked.false_alarm_rate
        try:
            self.judging.calibration.require_rate(rate)
        except InputError as error:
            raise Refusal(422, str(error)) from error
        kind, most = self._kind(request)
        writer = Writer(rate, self.judging, "pictures" if kind == FORM else "samples")
        with self._held.share() as share:
            body = await read_body(request, share, most=most, seconds=self.bounds.body_seconds)
            if kind == FORM:
                entries = self._of_pictures(body, request.headers["content-type"], asked, writer)
            else:
                entries = self._of_features(body, kind, asked, writer)
            found = await self._in_time(request, entries)
        self._count(found)
        if self.watching is not None:
            await self.watching.take(found, self.metrics)
        return await self._off_loop(
            lambda: Answer(false_alarm_rate=rate, results=found).model_dump_json().encode()
        )

    def _count(self, entries: Sequence[Entry]) -> None:
        """Verdicts at the guard's own rate, whatever clients ask for: their share means one thing."""
        for entry in entries:
            verdict = entry.verdict
            if entry.p_value is not None:
                verdict = OOD if flagged(entry.p_value, self.judging.false_alarm_rate) else ID
            self.metrics.verdict(verdict)

    def _kind(self, request: Request) -> tuple[str, int]:
        """What the body is, and how long it may be."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refusal(415, "bodies are taken as they are: leave out Content-Encoding")
        if kind == FORM and not self.judging.takes_pictures:
            raise Refusal(415, "the guard knows no model and cannot look at pictures: send features")
        if kind in (JSON, *NPY) and not self.judging.takes_features:
            raise Refusal(415, "the exported guard begins with its model: send pictures, not features")
        if kind not in (FORM, JSON, *NPY):
            raise Refusal(415, f"Content-Type must be {FORM}, {JSON} or {NPY[0]}, got {kind[:80]!r}")
        return kind, self.bounds.json_bytes if kind == JSON else self.bounds.request_bytes

    async def _of_features(self, body: bytes, kind: str, asked: Asked, writer: Writer) -> list[Entry]:
        parse: Callable[[bytes, int, Bounds], Tensor] = rows_in_json if kind == JSON else rows_in_npy
        rows = await self._off_loop(partial(parse, body, self.judging.width, self.bounds))
        with self._batcher.room(1) as room:
            judged = await self._batcher.judged(room, rows, explain=asked.explain)
        return await self._off_loop(
            lambda: [writer.entry(index, None, row) for index, row in enumerate(judged)]
        )

    async def _of_pictures(self, body: bytes, content_type: str, asked: Asked, writer: Writer) -> list[Entry]:
        parts = await self._off_loop(partial(pictures_in, body, content_type, self.bounds))
        with self._batcher.room(len(parts)) as room:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._of_picture(room, index, part, asked, writer))
                        for index, part in enumerate(parts)
                    ]
            except ExceptionGroup as several:
                raise several.exceptions[0] from several
        return [task.result() for task in tasks]

    async def _of_picture(self, room: Room, index: int, part: Part, asked: Asked, writer: Writer) -> Entry:
        name = f"picture {index} ({part.name})"
        work = partial(prepared_picture, self.judging, part.content, name, self.bounds.pixels)
        try:
            prepared = await self._off_loop(work)
        except UnreadableImageError as error:
            room.expect(-1)
            return unreadable(index, part.name, str(error))
        (judged,) = await self._batcher.judged(room, prepared.image[None], explain=asked.explain)
        return writer.entry(index, part.name, judged, prepared.note)

    async def _off_loop(self, work: Callable[[], Result]) -> Result:
        """In one of the threads: whatever takes time must not hold up the others' requests."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _in_time(self, request: Request, work: Awaitable[Result]) -> Result:
        """The result, unless the time is over or the client has left: then nobody waits for it any more."""
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_has_left(request))
        try:
            done, _ = await asyncio.wait(
                (working, leaving), timeout=self.bounds.answer_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if working in done:
                return working.result()
            if leaving in done:
                raise ClientDisconnect
            raise Refusal(503, f"no answer within {self.bounds.answer_seconds:g} seconds: try again later")
        finally:
            for task in (working, leaving):
                task.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)


async def _has_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
