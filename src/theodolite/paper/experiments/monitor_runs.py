"""Many streams through the monitor at once: what is simulated, and what is drawn from real scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...core.arrays import FloatArray
from ...guard.calibration import Calibration
from ...guard.growing import GrowingReference
from ...guard.martingale import opening, play


class Streams(NamedTuple):
    """Calibration scores (S, n) and stream scores (S, T) of S runs."""

    calibration: FloatArray
    scores: FloatArray


def null_streams(calibration: int, samples: int, runs: int, seed: int) -> Streams:
    """Independent normal scores. P-values are ranks: any other continuous scores give the same figures."""
    rng = np.random.default_rng([seed, calibration])
    return Streams(rng.standard_normal((runs, calibration)), rng.standard_normal((runs, samples)))


def shuffled(known: FloatArray, calibration: int, samples: int, runs: int, seed: int) -> Streams:
    """ID scores in random orders: first the calibration, then the stream."""
    rng = np.random.default_rng([seed, calibration, samples])
    drawn = np.stack([rng.permutation(known)[: calibration + samples] for _ in range(runs)])
    return Streams(drawn[:, :calibration], drawn[:, calibration:])


def turned(known: FloatArray, strange: FloatArray, share: float, seed: Sequence[int]) -> FloatArray:
    """ID scores (S, T) of which a ``share`` is replaced by scores of OOD samples."""
    rng = np.random.default_rng([*seed, round(1_000 * share)])
    scores = known.copy()
    for row in scores:
        places = np.flatnonzero(rng.random(len(row)) < share)
        row[places] = rng.permutation(strange)[: len(places)]
    return scores


def growing_p_values(streams: Streams) -> FloatArray:
    """Those that the monitor bets on."""
    pairs = zip(references(streams), streams.scores, strict=True)
    return np.stack([reference.p_values(scores) for reference, scores in pairs])


def references(streams: Streams) -> list[GrowingReference]:
    return [GrowingReference(known, seed) for seed, known in enumerate(streams.calibration)]


def own_p_values(streams: Streams) -> FloatArray:
    """The guard's own, against the calibration scores alone."""
    pairs = zip(streams.calibration, streams.scores, strict=True)
    return np.stack([Calibration(known).p_values(scores) for known, scores in pairs])


def evidence(p_values: FloatArray, kind: str) -> FloatArray:
    """The evidence after every sample of every stream, as a power of ten."""
    return play(opening(kind, p_values.shape[:1]), p_values, kind)[1]


def alarm_times(found: FloatArray, alarm: float) -> FloatArray:
    """The number of the sample that raised the alarm, from 1 on, of every stream; ∞ where none did."""
    reached = found >= -np.log10(alarm)
    times: FloatArray = np.where(reached.any(axis=1), 1.0 + reached.argmax(axis=1), np.inf)
    return times


def alarms_of(streams: Streams, alarms: Mapping[str, float]) -> dict[str, FloatArray]:
    """The times of the alarms by kind."""
    return Watched(references(streams), alarms).follow(streams.scores)


class Watched:
    """Streams up to some moment, from which they can go on in several ways."""

    def __init__(self, known: list[GrowingReference], alarms: Mapping[str, float]) -> None:
        self.references, self.alarms = known, alarms
        self.money = {kind: opening(kind, (len(known),)) for kind in alarms}

    def follow(self, scores: FloatArray) -> dict[str, FloatArray]:
        """The times of the alarms among the next scores (S, T), by kind."""
        pairs = zip(self.references, scores, strict=True)
        p_values = np.stack([reference.p_values(row) for reference, row in pairs])
        times = {}
        for kind, alarm in self.alarms.items():
            self.money[kind], found = play(self.money[kind], p_values, kind)
            times[kind] = alarm_times(found, alarm)
        return times
