"""The monitor of a service: every score that was answered, in the order of the answers.

Scores are taken to it in a thread of its own, so that no answer waits for it; none is lost when the service
ends. Its state outlives the process where a file is named for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ..core.arrays import FloatArray
from ..core.errors import StorageError
from ..guard import Monitor
from ..guard.verdicts import UNREADABLE
from .answers import Drift, Entry
from .metrics import Metrics

_logger = logging.getLogger("theodolite.serve")
# What is lost of the state if the process is killed.
_KEPT_EVERY = 1_000
# Answers that may be ahead of the monitor: beyond that they wait for it, so that what waits is bounded.
_MOST_BEHIND = 64


class Watching:
    """A monitor, the thread that feeds it, and the file of its state. An alarm is a line in the log."""

    def __init__(self, monitor: Monitor, state: Path | None = None) -> None:
        self._monitor, self._state = monitor, state
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="monitor")
        self._behind: deque[asyncio.Future[None]] = deque()
        self._now = self._read()
        self._keep()  # where it cannot be written, it is known before the first request

    @property
    def now(self) -> Drift:
        """What was known after the last answer that it has taken."""
        return self._now

    def begin(self, metrics: Metrics) -> None:
        """Say what the state says: an alarm stays until a new one is begun."""
        metrics.drift(self._monitor.evidence, self._monitor.alarmed_at is not None)
        if self._monitor.alarmed_at is not None:
            self._warn()

    async def take(self, entries: Sequence[Entry], metrics: Metrics) -> None:
        """The samples of one answer, of which those that are no picture say nothing.

        Returns at once, unless it is far behind.
        """
        known = (entry.score for entry in entries if entry.verdict != UNREADABLE)
        scores = np.array([math.nan if score is None else score for score in known], dtype=np.float64)
        if not len(scores):
            return
        loop = asyncio.get_running_loop()
        self._behind.append(loop.run_in_executor(self._thread, self._update, scores, metrics))
        while self._behind and (self._behind[0].done() or len(self._behind) > _MOST_BEHIND):
            await self._behind.popleft()

    def _update(self, scores: FloatArray, metrics: Metrics) -> None:
        try:
            quiet, before = self._monitor.alarmed_at is None, self._monitor.seen
            self._monitor.update(scores)
            self._now = self._read()
            metrics.drift(self._monitor.evidence, self._monitor.alarmed_at is not None)
            if quiet and self._monitor.alarmed_at is not None:
                self._warn()
        except Exception:
            _logger.exception("the monitor failed on %d scores: its evidence lacks them", len(scores))
            return
        if before // _KEPT_EVERY < self._monitor.seen // _KEPT_EVERY:
            self._keep_if_possible()

    def close(self) -> None:
        """Take what is still on its way, and keep the state."""
        self._thread.shutdown(wait=True)
        self._keep_if_possible()

    def _keep_if_possible(self) -> None:
        try:
            self._keep()
        except StorageError as error:
            _logger.error("the state of the monitor was not kept: %s", error)

    def _keep(self) -> None:
        if self._state is not None:
            self._monitor.save(self._state)

    def _warn(self) -> None:
        _logger.warning(
            "drift: the scores are no longer like the calibration data, alarm at sample %d",
            self._monitor.alarmed_at,
        )

    def _read(self) -> Drift:
        monitor = self._monitor
        return Drift(
            kind=monitor.kind,
            seen=monitor.seen,
            evidence=monitor.evidence if math.isfinite(monitor.evidence) else None,
            threshold=monitor.threshold,
            alarmed_at=monitor.alarmed_at,
        )
