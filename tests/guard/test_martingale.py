"""The game and its p-values against their definitions, written out slowly, and against their promises."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.arrays import FloatArray
from theodolite.core.errors import InputError
from theodolite.guard import Calibration
from theodolite.guard.growing import GrowingReference
from theodolite.guard.martingale import (
    JUMP_RATES,
    KINDS,
    MARTINGALE,
    SHIRYAEV_ROBERTS,
    gains,
    opening,
    play,
    require_kind,
)

BETS: tuple[Callable[[float], float], ...] = (
    lambda _: 1.0,
    lambda p: 0.5 + p,
    lambda p: 0.25 * p**-0.75,
    lambda p: 0.5 * p**-0.5,
    lambda p: 0.75 * p**-0.25,
)


def jumper(p_values: list[float], rate: float) -> list[float]:
    """Simple Jumper as the paper writes it: jump, then bet; the capital after every p-value."""
    accounts, capital = [1 / len(BETS)] * len(BETS), 1.0
    course = []
    for p in p_values:
        jumped = [(1 - rate) * money + rate / len(BETS) * capital for money in accounts]
        accounts = [money * bet(p) for money, bet in zip(jumped, BETS, strict=True)]
        capital = math.fsum(accounts)
        course.append(capital)
    return course


def composite(p_values: list[float]) -> FloatArray:
    average: FloatArray = np.array([jumper(p_values, rate) for rate in JUMP_RATES]).mean(axis=0)
    return average


def uniform(count: int, seed: int = 0) -> FloatArray:
    return 1 - np.random.default_rng(seed).random(count)


def evidence(p_values: FloatArray, kind: str) -> FloatArray:
    return play(opening(kind, p_values.shape[:-1]), p_values, kind)[1]


def test_every_bet_is_fair() -> None:
    """∫ f = 1, with the substitution p = u⁸ that tames the corner at 0."""
    u = (np.arange(200_000) + 0.5) / 200_000
    integrals = (gains(u**8) * (8 * u**7)[:, None]).mean(axis=0)
    np.testing.assert_allclose(integrals, 1, rtol=1e-6)
    p = uniform(50)
    np.testing.assert_allclose(gains(p), [[bet(value) for bet in BETS] for value in p], rtol=1e-13)


@pytest.mark.parametrize("drift", [1.0, 3.0, 0.4])
def test_the_martingale_is_the_average_of_simple_jumpers(drift: float) -> None:
    p_values = uniform(300) ** drift
    expected = composite(p_values.tolist())
    np.testing.assert_allclose(10 ** evidence(p_values, MARTINGALE), expected, rtol=1e-10)


def test_shiryaev_roberts_is_the_money_of_jumpers_that_begin_at_every_sample() -> None:
    p_values = uniform(120) ** 1.5
    expected = np.zeros(120)
    for start in range(120):
        expected[start:] += composite(p_values[start:].tolist())
    np.testing.assert_allclose(10 ** evidence(p_values, SHIRYAEV_ROBERTS), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_many_games_at_once_are_each_played_alone(kind: str) -> None:
    p_values = uniform(400).reshape(4, 100)
    together = evidence(p_values, kind)
    for row, course in zip(p_values, together, strict=True):
        np.testing.assert_allclose(evidence(row, kind), course, rtol=1e-12, atol=1e-12)


def test_nothing_overflows_and_nothing_is_lost_for_ever() -> None:
    """A long quiet stream, then a change that would overflow any float; then the other way."""
    quiet, strange = np.full(40_000, 0.5), np.full(3_000, 1e-9)
    rich = evidence(np.concatenate([quiet, strange]), MARTINGALE)
    assert np.isfinite(rich).all()
    assert rich[len(quiet) - 1] < 0
    assert rich[-1] > 10_000
    back = evidence(np.concatenate([quiet, strange]), SHIRYAEV_ROBERTS)
    assert np.isfinite(back).all()
    assert back[len(quiet) - 1] > -1, "there are always Jumpers that have just begun"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="kind must be 'martingale' or 'shiryaev-roberts', got 'cusum'"):
        require_kind("cusum")


# ---------------------------------------------------------------------- p-values


def slow_p_values(calibration: list[float], stream: list[float], seed: int) -> list[float]:
    """The definition: samples are pairs (score, key); slots of the earlier ones, gap by gap."""
    random = np.random.Generator(np.random.PCG64(seed))
    known = sorted(zip(sorted(calibration), random.random(len(calibration)).tolist(), strict=True))
    earlier: list[tuple[float, float]] = []
    found = []
    for score in stream:
        key, theta = random.random(2).tolist()
        theta = 1 - theta
        gap = sum(pair < (score, key) for pair in known)
        gaps = [sum(pair < other for pair in known) for other in earlier]
        slots = [1 + gaps.count(place) for place in range(len(known) + 1)]
        found.append((sum(slots[:gap]) + theta * slots[gap]) / sum(slots))
        earlier.append((score, key))
    return found


tied = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False))


@given(st.lists(tied, min_size=1, max_size=20), st.lists(tied, max_size=300), st.integers(0, 5))
def test_p_values_are_those_of_the_definition(known: list[float], stream: list[float], seed: int) -> None:
    reference = GrowingReference(np.array(known), seed)
    np.testing.assert_allclose(
        reference.p_values(np.array(stream)), slow_p_values(known, stream, seed), rtol=1e-12
    )
    assert reference.seen == len(stream)


def scores(count: int, ties: bool, rng: np.random.Generator) -> FloatArray:
    drawn = rng.standard_normal(count)
    return np.round(drawn) if ties else drawn


@pytest.mark.parametrize("ties", [False, True])
def test_p_values_are_uniform_and_the_luck_of_a_calibration_is_not_in_them(ties: bool) -> None:
    """Kolmogorov–Smirnov at 0.1 %, and the means of runs, which one calibration set would move together.

    Over R runs the mean of T p-values has variance 1/(12 T) if they are independent; its estimate has the
    relative standard error √(2/R). The guard's own p-values, 20 calibration scores, are far beyond.
    """
    rng, runs, length = np.random.default_rng(3), 300, 100
    pairs = [(scores(20, ties, rng), scores(length, ties, rng)) for _ in range(runs)]
    p = np.stack([GrowingReference(known, seed).p_values(new) for seed, (known, new) in enumerate(pairs)])
    flat = np.sort(p.ravel())
    steps = np.arange(1, len(flat) + 1) / len(flat)
    assert np.abs(flat - steps).max() < 1.95 / len(flat) ** 0.5
    assert flat[0] > 0
    assert flat[-1] <= 1
    spread = 12 * length * p.mean(axis=1).var()
    assert abs(spread - 1) < 4 * (2 / runs) ** 0.5
    assert abs(np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]) < 4 / p.size**0.5
    own = np.stack([Calibration(known).p_values(new) for known, new in pairs])
    assert 12 * length * own.mean(axis=1).var() > 2


def test_the_promise_holds_in_simulation_and_breaks_on_the_guards_own_p_values() -> None:
    """Ville's bound of 10 % on 400 streams, and a mean of 1/α samples, within three standard errors."""
    rng, runs, alarm = np.random.default_rng(5), 400, 0.1
    pairs = [(rng.standard_normal(50), rng.standard_normal(400)) for _ in range(runs)]
    growing = np.stack(
        [GrowingReference(known, seed).p_values(new) for seed, (known, new) in enumerate(pairs)]
    )
    own = np.stack([Calibration(known).p_values(new) for known, new in pairs])
    bound = alarm + 3 * (alarm * (1 - alarm) / runs) ** 0.5
    ever = [(evidence(p, MARTINGALE) >= 1).any(axis=1).mean() for p in (growing, own)]
    assert ever[0] <= bound
    assert ever[1] > bound
    reached = evidence(growing, SHIRYAEV_ROBERTS) >= 2
    times = np.where(reached.any(axis=1), 1 + reached.argmax(axis=1), 400)
    assert times.mean() >= 100 - 3 * times.std() / runs**0.5
