"""Many streams through the monitor at once: what is simulated, and what is drawn from real scores."""

from __future__ import annotations

from collections.abc import Mapping
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


def turning(streams: Streams, strange: FloatArray, after: int, share: float, seed: int) -> Streams:
    """The same streams in which, ``after`` so many samples, a ``share`` of the scores is of OOD samples."""
    rng = np.random.default_rng([seed, after, round(1_000 * share)])
    scores = streams.scores.copy()
    turned = scores.shape[1] - after
    for row in scores:
        places = after + np.flatnonzero(rng.random(turned) < share)
        row[places] = rng.permutation(strange)[: len(places)]
    return Streams(streams.calibration, scores)


def growing_p_values(streams: Streams) -> FloatArray:
    """Those that the monitor bets on."""
    pairs = enumerate(zip(streams.calibration, streams.scores, strict=True))
    return np.stack([GrowingReference(known, seed).p_values(scores) for seed, (known, scores) in pairs])


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
    p_values = growing_p_values(streams)
    return {kind: alarm_times(evidence(p_values, kind), alarm) for kind, alarm in alarms.items()}
