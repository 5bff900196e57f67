"""Thresholds, and the promise of the false-alarm rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from theodolite import Head
from theodolite.core.arrays import as_scores
from theodolite.core.errors import InputError
from theodolite.evaluation import fpr_at_tpr, threshold_at_tpr
from theodolite.guard import Calibration, Guard


def test_threshold_accepts_the_share_it_says() -> None:
    scores = np.random.default_rng(0).normal(size=1000)
    threshold = threshold_at_tpr(scores)
    assert np.mean(scores >= threshold) == 0.95
    assert np.mean(scores > threshold) < 0.95
    other = np.random.default_rng(1).normal(-1, 1, 500)
    assert fpr_at_tpr(scores, other) == np.mean(other >= threshold)


@given(st.lists(st.integers(0, 6), min_size=19, max_size=80), st.lists(st.integers(-1, 7), min_size=1))
def test_verdict_p_value_and_threshold_agree(calibration: list[int], new: list[int]) -> None:
    known, scores = Calibration(np.array(calibration, float)), np.array(new, float)
    p_values = as_scores(known.p_values(scores), "p")
    direct = [(1 + sum(c <= s for c in calibration)) / (len(calibration) + 1) for s in new]
    np.testing.assert_allclose(p_values, direct)
    flagged = known.is_ood(scores, 0.05)
    np.testing.assert_array_equal(flagged, p_values <= 0.05 + 1e-12)
    np.testing.assert_array_equal(flagged, scores < known.threshold(0.05))


def test_scores_are_compared_in_the_coarser_precision() -> None:
    """A score that is 1 in float32 and 1 − 1e-8 in float64 ties with calibration scores that are 1."""
    single = Calibration(torch.ones(99, dtype=torch.float32))
    noise = torch.rand(99, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = Calibration(1 - 1e-8 * noise)
    for near in (np.array([1 - 1e-8]), torch.tensor([1 - 1e-8], dtype=torch.float64)):
        assert float(single.p_values(near)[0]) == 1.0
        assert not bool(single.is_ood(near, 0.5)[0])
    assert float(exact.standing(torch.ones(1), torch.zeros(1)).rank[0]) == 100
    assert float(exact.standing(torch.full((1,), 1 - 1e-7), torch.zeros(1)).rank[0]) == 1
    assert 0.01 < float(exact.p_values(np.array([1 - 5e-9]))[0]) < 1, "both in float64: all digits count"
    assert float(single.p_values(np.array([1 - 1e-6]))[0]) == 0.01
    assert float(single.p_values(np.array([-1e300]))[0]) == 0.01, "more than float32 can hold"


@pytest.mark.parametrize("name", ["msp", "energy"])
def test_rows_in_any_precision_have_the_same_verdict(name: str) -> None:
    """A confident classifier, whose MSP is 1 but for rounding."""
    weight = 30 * torch.eye(5, 8)
    noise = torch.rand(600, 8, generator=torch.Generator().manual_seed(0))
    rows = noise + 3 * torch.eye(5, 8)[torch.arange(600) % 5]
    guard = Guard.fit(rows[:300], head=Head(weight), detector=name, calibration=rows[300:])
    one, other = (guard.verdicts(values) for values in (rows, rows.double()))
    assert torch.equal(torch.as_tensor(one.is_ood), torch.as_tensor(other.is_ood))
    difference = (torch.as_tensor(one.p_value) - torch.as_tensor(other.p_value)).abs().max()
    assert float(difference) <= 1.01 / 301, "but for a rank at a tie"


@pytest.mark.parametrize(("size", "rate"), [(20, 0.05), (20, 0.2), (57, 0.05), (500, 0.01), (500, 0.1)])
def test_false_alarms_stay_below_the_rate(size: int, rate: float) -> None:
    """Exchangeable ID scores: the share flagged, averaged over calibration sets, is at most the rate."""
    rng = np.random.default_rng(size)
    trials, fresh = 4000, 50
    alarms = np.array(
        [
            Calibration(rng.normal(size=size)).is_ood(rng.normal(size=fresh), rate).mean()
            for _ in range(trials)
        ]
    )
    standard_error = alarms.std() / trials**0.5
    assert alarms.mean() <= rate + 3 * standard_error
    # Continuous scores reach the promise exactly, so the guard does not waste power either.
    assert alarms.mean() >= np.floor(rate * (size + 1)) / (size + 1) - 4 * standard_error


def test_ties_never_break_the_promise() -> None:
    rng = np.random.default_rng(0)
    alarms = [
        Calibration(rng.integers(0, 3, 40) * 1.0).is_ood(rng.integers(0, 3, 40) * 1.0).mean()
        for _ in range(500)
    ]
    assert np.mean(alarms) <= 0.05


def test_torch_in_torch_out() -> None:
    known = Calibration(torch.randn(100))
    scores = torch.randn(5)
    assert isinstance(known.p_values(scores), torch.Tensor)
    assert known.is_ood(scores).dtype == torch.bool
    assert isinstance(known.is_ood(scores.numpy()), np.ndarray)
    assert len(known) == 100


def test_too_few_scores_are_refused() -> None:
    with pytest.raises(InputError, match=r"18 calibration scores cannot support .* at least 19 are needed"):
        Calibration(np.arange(18.0)).is_ood(np.zeros(1))
    with pytest.raises(InputError, match=r"false-alarm rate must lie between 0 and 1, got '0\.05'"):
        Calibration(np.arange(18.0)).threshold("0.05")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="false-alarm rate must lie between 0 and 1, got 5"):
        Calibration(np.arange(18.0)).threshold(5)
    with pytest.raises(InputError, match=r"tpr must lie in \(0, 1\], got 0"):
        threshold_at_tpr(np.arange(3.0), 0)


@pytest.mark.parametrize(("count", "rate"), [(19, 0.05), (371, 0.05), (5_000, 0.01)])
def test_the_rate_of_one_calibration(count: int, rate: float) -> None:
    """Against SciPy's Beta distribution, and against calibrations that were really drawn."""
    rng = np.random.default_rng(0)
    low, high = Calibration(rng.random(count)).rate_interval(rate, level=0.9)
    rank = math.floor(rate * (count + 1) + 1e-9)
    assert (low, high) == pytest.approx(beta.ppf([0.05, 0.95], rank, count + 1 - rank), abs=1e-9)
    # Uniform scores: the share of new ones below a threshold is the threshold itself.
    drawn = [Calibration(rng.random(count)).threshold(rate) for _ in range(400)]
    inside = np.mean([low <= threshold <= high for threshold in drawn])
    assert inside == pytest.approx(0.9, abs=0.05)
    with pytest.raises(InputError, match="level must lie"):
        Calibration(np.arange(30.0)).rate_interval(level=2)


def test_a_rate_just_below_one_flags_all_but_the_most_familiar() -> None:
    calibration = Calibration(np.arange(75.0))
    assert calibration.threshold(math.nextafter(1, 0)) == 74


@given(
    count=st.integers(1, 60), rate=st.floats(0.001, 0.999), seed=st.integers(0, 10**6), single=st.booleans()
)
def test_numbers_and_tensors_flag_the_same(count: int, rate: float, seed: int, single: bool) -> None:
    """How many scores there are is one number for all, or one a score; NaN is looked for, or known absent."""
    rng = np.random.default_rng(seed)
    known = Calibration(rng.integers(0, 20, count).astype(np.float64))
    scores = torch.from_numpy(rng.integers(-2, 22, 50)).to(torch.float32 if single else torch.float64)
    classes, alpha = torch.zeros(50, dtype=torch.int64), torch.tensor(rate, dtype=torch.float64)
    looked, whole = known.standing(scores, classes), known.standing(scores, classes, whole=True)
    each = looked._replace(among=torch.full((50,), count))
    assert whole.nowhere is None
    for other in (whole, each):
        assert torch.equal(known.flags(other, alpha), known.flags(looked, alpha))
        assert torch.equal(known(other), known(looked))
