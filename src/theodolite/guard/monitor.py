"""The monitor: is the stream of scores still what the guard was calibrated on?

    monitor = guard.monitor(alarm=0.01)
    reading = monitor.update(guard.verdicts(features).score)
    reading.evidence, reading.alarmed_at

A guard judges sample by sample; a monitor judges the stream. It bets against the claim that calibration and
stream are exchangeable (`martingale`), on p-values of its own (`growing`) and **not** on the guard's, which
would break the promise. While the claim holds, a ``"martingale"`` raises an alarm with probability at most
``alarm``, however long the stream is; ``"shiryaev-roberts"``, for streams without an end, at most one in
1/``alarm`` samples on average. An alarm says that the stream has changed, not what is wrong with it. Silence
is no proof that all is well.

A sample without a score (NaN) counts as stranger than every score, as the guard flags it: calibration scores
are never NaN, so whoever sends them has left what was calibrated on, and leaving them out would hide it.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from ..core.arrays import ArrayLike, FloatArray, as_tensor
from ..core.errors import InputError
from .calibration import Calibration
from .growing import GrowingReference
from .martingale import MARTINGALE, SHIRYAEV_ROBERTS, log10_evidence, opening, play, require_kind
from .monitor_state import MonitorState, read_state, write_state

# Of a martingale the probability of ever a false alarm; of Shiryaev–Roberts one in so many samples.
ALARMS = {MARTINGALE: 0.01, SHIRYAEV_ROBERTS: 1e-5}


class Reading(NamedTuple):
    """What a monitor knows after an update.

    Evidence is a power of ten: 2 is a hundredfold gain against the claim that nothing has changed. ``trace``
    has it after each sample of the update, ``evidence`` after the last; ``peak`` is the highest so far.
    ``alarmed_at`` is the number of the sample that raised the alarm, from 1 on; None if none did.
    """

    seen: int
    unscorable: int
    evidence: float
    peak: float
    alarmed_at: int | None
    trace: FloatArray


class Monitor:
    """Evidence that a stream of scores is no longer like the calibration scores, after every sample.

    ``alarm`` is by default 0.01 for ``kind="martingale"``: of streams in which nothing changes at most 1 %
    ever raise one. For ``kind="shiryaev-roberts"`` it is 1e-5: 100,000 samples or more to a false alarm, on
    average. The random numbers that the p-values need come from ``seed``: the same stream gives the same
    evidence, in batches of any size. A monitor is for one thread at a time.

    >>> rng = np.random.default_rng(0)
    >>> monitor = th.Monitor(th.Calibration(rng.normal(size=500)), alarm=0.01)
    >>> monitor.update(rng.normal(size=200)).alarmed_at  # nothing has changed
    >>> reading = monitor.update(rng.normal(-2, 1, size=50))
    >>> 200 < reading.alarmed_at <= 250
    True
    """

    def __init__(
        self,
        calibration: Calibration,
        *,
        alarm: float | None = None,
        kind: str = MARTINGALE,
        seed: int = 0,
    ) -> None:
        require_kind(kind)
        alarm = ALARMS[kind] if alarm is None else alarm
        if not 0 < alarm < 1:
            raise InputError(f"alarm must lie between 0 and 1, got {alarm}")
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed must be a whole number from 0 on, got {seed!r}")
        self.kind, self.alarm = kind, float(alarm)
        self._digest = digest_of(calibration)
        self._calibration = calibration
        self._reference = GrowingReference(calibration.scores, seed)
        self._unscorable = 0
        self._begin()

    def _begin(self) -> None:
        self._capital = opening(self.kind)
        self._peak = self.evidence
        self._alarmed_at: int | None = None

    @property
    def evidence(self) -> float:
        """The evidence now, as a power of ten; −∞ in Shiryaev–Roberts before the first sample."""
        return float(log10_evidence(self._capital))

    @property
    def peak(self) -> float:
        """The highest evidence since the beginning, or since the last `reset`."""
        return self._peak

    @property
    def threshold(self) -> float:
        """The evidence that raises an alarm: log10(1 / alarm)."""
        return -math.log10(self.alarm)

    @property
    def alarmed_at(self) -> int | None:
        """The number of the sample that raised the alarm, from 1 on; it stays until `reset`."""
        return self._alarmed_at

    @property
    def seen(self) -> int:
        """Samples of the stream, with those that have no score."""
        return self._reference.seen

    @property
    def seed(self) -> int:
        """Where its random numbers come from."""
        return self._reference.seed

    @property
    def unscorable(self) -> int:
        """Samples without a score (NaN)."""
        return self._unscorable

    def update(self, scores: ArrayLike) -> Reading:
        """The next scores of the stream, in order; NaN is a sample without a score."""
        given = as_tensor(scores, "scores").to(self._calibration.sorted_scores.device)
        values = self._calibration.comparable(given).cpu().numpy()
        if values.ndim != 1:
            raise InputError(f"scores must be a vector, one a sample, got shape {values.shape}")
        unscorable = np.isnan(values)
        before = self.seen
        p_values = self._reference.p_values(np.where(unscorable, -np.inf, values))
        self._capital, trace = play(self._capital, p_values, self.kind)
        self._unscorable += int(unscorable.sum())
        self._peak = max([self._peak, *trace.tolist()])
        reached = np.flatnonzero(trace >= self.threshold)
        if self._alarmed_at is None and len(reached):
            self._alarmed_at = before + 1 + int(reached[0])
        return Reading(self.seen, self.unscorable, self.evidence, self.peak, self.alarmed_at, trace)

    def reset(self) -> None:
        """Begin the evidence anew, after an alarm has been seen to.

        The reference keeps all scores so far: so what follows is independent of what was, and the promise
        holds anew. If the stream is to be compared with the calibration scores alone, make a new monitor.
        """
        self._begin()

    def save(self, path: str | Path) -> None:
        """Write the whole state as one safetensors file, atomically."""
        state = MonitorState(
            kind=self.kind,
            alarm=self.alarm,
            seed=self.seed,
            calibration=self._digest,
            unscorable=self._unscorable,
            alarmed_at=self._alarmed_at,
        )
        write_state(Path(path), state, self._reference.counts, self._capital, self._peak)

    @classmethod
    def load(cls, path: str | Path, calibration: Calibration) -> Self:
        """A monitor where `save` left it: the stream goes on to the same evidence, to the last digit.

        The state of another calibration is refused.
        """
        stored = read_state(Path(path), digest_of(calibration), len(calibration) + 1)
        said = stored.said
        monitor = cls(calibration, alarm=said.alarm, kind=said.kind, seed=said.seed)
        monitor._reference = GrowingReference(calibration.scores, said.seed, stored.counts)
        monitor._capital, monitor._peak = stored.capital, stored.peak
        monitor._unscorable, monitor._alarmed_at = said.unscorable, said.alarmed_at
        return monitor

    @classmethod
    def resumed(
        cls,
        calibration: Calibration,
        state: Path | None,
        *,
        alarm: float | None = None,
        kind: str | None = None,
        seed: int | None = None,
    ) -> Self:
        """The monitor in the file ``state``, if it is there, else a new one; what is asked for must be so."""
        if state is None or not state.exists():
            return cls(calibration, alarm=alarm, kind=kind or MARTINGALE, seed=seed or 0)
        known = cls.load(state, calibration)
        asked = {"alarm": (alarm, known.alarm), "kind": (kind, known.kind), "seed": (seed, known.seed)}
        for name, (wanted, has) in asked.items():
            if wanted is not None and wanted != has:
                raise InputError(
                    f"{name} {wanted} does not go with {state}, which was begun with {has}: leave it out, or "
                    f"begin a new state"
                )
        return known

    def __repr__(self) -> str:
        state = "no alarm" if self.alarmed_at is None else f"alarm at sample {self.alarmed_at:,}"
        return (
            f"Monitor(kind={self.kind!r}, alarm={self.alarm:g}): {self.seen:,} samples, "
            f"evidence 10^{self.evidence:.2f}, {state}"
        )


def digest_of(calibration: Calibration) -> str:
    """What calibration scores are known by."""
    return hashlib.sha256(np.ascontiguousarray(calibration.scores, dtype="<f8").tobytes()).hexdigest()
