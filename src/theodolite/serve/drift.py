"""The monitor of a service: every score that was answered, in the order of the answers.

Scores are taken to it in a thread of its own, so that no answer waits for it; none is lost when the service
ends. Its state outlives the process where a file is named for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ..guard import Monitor
from ..guard.verdicts import UNREADABLE
from .answers import Drift, Entry
from .metrics import Metrics

_logger = logging.getLogger("theodolite.serve")
# What is lost of the state if the process is killed.
_KEPT_EVERY = 1_000


class Watching:
    """A monitor, the thread that feeds it, and the file of its state. An alarm is a line in the log."""

    def __init__(self, monitor: Monitor, state: Path | None = None) -> None:
        self._monitor, self._state = monitor, state
        self._kept = monitor.seen
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="monitor")
        self._now = self._read()

    @property
    def now(self) -> Drift:
        """What was known after the last answer that it has taken."""
        return self._now

    def take(self, entries: Sequence[Entry], metrics: Metrics) -> None:
        """The samples of one answer, of which those that are no picture say nothing. Returns at once."""
        known = (entry.score for entry in entries if entry.verdict != UNREADABLE)
        scores = np.array([math.nan if score is None else score for score in known], dtype=np.float64)
        if len(scores):
            asyncio.get_running_loop().run_in_executor(self._thread, self._update, scores, metrics)

    def _update(self, scores: np.ndarray, metrics: Metrics) -> None:
        try:
            quiet = self._monitor.alarmed_at is None
            self._monitor.update(scores)
            self._now = self._read()
            metrics.drift(self._monitor.evidence, self._monitor.alarmed_at is not None)
            if quiet and self._monitor.alarmed_at is not None:
                _logger.warning(
                    "drift: the scores are no longer like the calibration data, alarm at sample %d",
                    self._monitor.alarmed_at,
                )
            if self._monitor.seen - self._kept >= _KEPT_EVERY:
                self._keep()
        except Exception:
            _logger.exception("the monitor failed on %d scores: its evidence lacks them", len(scores))

    def close(self) -> None:
        """Take what is still on its way, and keep the state."""
        self._thread.shutdown(wait=True)
        self._keep()

    def _keep(self) -> None:
        if self._state is not None:
            self._monitor.save(self._state)
            self._kept = self._monitor.seen

    def _read(self) -> Drift:
        monitor = self._monitor
        return Drift(
            kind=monitor.kind,
            seen=monitor.seen,
            evidence=monitor.evidence if math.isfinite(monitor.evidence) else None,
            threshold=monitor.threshold,
            alarmed_at=monitor.alarmed_at,
        )
