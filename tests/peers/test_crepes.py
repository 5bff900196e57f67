"""The monitor against crepes: smoothed p-values, Simple Jumpers and their average."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.core.arrays import FloatArray
from theodolite.guard.growing import GrowingReference
from theodolite.guard.martingale import JUMP_RATES, MARTINGALE, opening, play

pytestmark = pytest.mark.peers
martingales = pytest.importorskip("crepes.martingales", reason="make test-peers installs it")

CALIBRATION, STREAM = 400, 200


class OurBets:
    """The five accounts as a betting function of crepes."""

    def apply(self, p_values: FloatArray) -> FloatArray:
        strange = [kappa * p_values ** (kappa - 1) for kappa in (0.25, 0.5, 0.75)]
        return np.stack([np.ones(len(p_values)), 0.5 + p_values, *strange], axis=1)


def theirs(known: FloatArray, new: FloatArray) -> FloatArray:
    """Their p-values of the stream, where strangeness is a low score."""
    found: FloatArray = martingales.semi_online_p_values(-np.concatenate([known, new]))
    return found[len(known) :]


def test_p_values_are_the_smoothed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same θ, and equal where no two stream scores fall between the same calibration scores."""
    rng = np.random.default_rng(0)
    known = np.sort(rng.standard_normal(CALIBRATION))
    gaps = rng.permutation(CALIBRATION - 1)[:STREAM]
    new = (known[gaps] + known[gaps + 1]) / 2
    numbers = np.random.Generator(np.random.PCG64(7))
    keys = numbers.random(CALIBRATION)
    thetas = np.concatenate([keys, 1 - numbers.random((STREAM, 2))[:, 1]])
    monkeypatch.setattr(np.random, "rand", lambda count: thetas[:count])
    np.testing.assert_allclose(GrowingReference(known, 7).p_values(new), theirs(known, new), rtol=1e-13)


def test_the_game_is_their_composite_of_simple_jumpers() -> None:
    p_values = 1 - np.random.default_rng(1).random(1_000) ** 0.9
    jumpers = [martingales.SimpleJumper(J=rate, bf=OurBets()) for rate in JUMP_RATES]
    expected = martingales.CompositeMartingale(jumpers).apply(p_values)
    found = play(opening(MARTINGALE), p_values, MARTINGALE)[1]
    np.testing.assert_allclose(10**found, expected, rtol=1e-9)


def test_what_is_not_told_apart_between_calibration_scores_costs_little() -> None:
    """Alarms on streams that turn, with their exact p-values and with ours: medians within a fifth."""
    times: dict[str, list[int]] = {"ours": [], "theirs": []}
    rng = np.random.default_rng(2)
    for seed in range(40):
        known, new = rng.standard_normal(CALIBRATION), rng.standard_normal(600)
        new[300:] -= 2.0 * (rng.random(300) < 0.5)
        for name, p_values in (
            ("ours", GrowingReference(known, seed).p_values(new)),
            ("theirs", theirs(known, new)),
        ):
            evidence = play(opening(MARTINGALE), np.maximum(p_values, 1e-12), MARTINGALE)[1]
            times[name].append(int(np.argmax(evidence >= 2)) if (evidence >= 2).any() else 600)
    ours, exact = np.median(times["ours"]) - 300, np.median(times["theirs"]) - 300
    assert 0 < ours < 100
    assert ours < 1.2 * exact
