"""Rank correlations against scipy, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.errors import InputError
from theodolite.evaluation.ranks import average_ranks, kendall, spearman

# Few values, so that many are equal.
PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=25)


@given(PAIRS)
def test_correlations_are_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats", reason="pip install scikit-learn brings it")
    first, second = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    np.testing.assert_array_equal(average_ranks(first), stats.rankdata(first))
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert spearman(first, second) is None
        assert kendall(first, second) is None
        return
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)
    assert kendall(first, second) == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-12)


def test_an_order_and_its_reverse() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.5, 9.0])
    assert spearman(values, values**3) == kendall(values, values**3) == 1
    assert spearman(values, -values) == kendall(values, -values) == -1


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="first has 2 values and second 3"):
        spearman(np.zeros(2), np.zeros(3))
