"""One pass, constant memory, and two halves that make the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from theodolite.core.errors import InputError
from theodolite.reference.bank import ALL_ROWS, Bank, sample_keys
from theodolite.reference.statistics import Needs, Statistics

EVERYTHING = Needs(mean=True, class_means=True, scatter=True, extremes=True, bank=50)


def rows(seed: int, count: int = 400, width: int = 7, classes: int = 5) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    features = torch.randn(count, width, generator=rng, dtype=torch.float64) * 3 + 1000
    return features, torch.randint(0, classes, (count,), generator=rng)


def collect(
    features: Tensor, labels: Tensor, ids: Tensor, *, step: int, needs: Needs = EVERYTHING
) -> Statistics:
    statistics = Statistics(needs, features.shape[1], classes=5)
    for start in range(0, len(features), step):
        part = slice(start, start + step)
        statistics.update(features[part], labels[part], ids[part])
    return statistics


def assert_same(one: Statistics, other: Statistics, rtol: float) -> None:
    assert one.count == other.count
    for name in ("counts", "means", "within", "mean", "total"):
        torch.testing.assert_close(
            getattr(one.moments, name), getattr(other.moments, name), rtol=rtol, atol=1e-9
        )
    assert torch.equal(one.maximum, other.maximum)
    assert torch.equal(one.minimum, other.minimum)
    for name in ("features", "labels", "ids"):
        assert torch.equal(getattr(one.bank, name), getattr(other.bank, name))


def test_against_numpy() -> None:
    features, labels = rows(0)
    statistics = collect(features, labels, torch.arange(400), step=64)
    table, numbers = features.numpy(), labels.numpy()
    np.testing.assert_allclose(statistics.moments.mean, table.mean(axis=0), rtol=1e-12)
    total = (table - table.mean(axis=0)).T @ (table - table.mean(axis=0))
    np.testing.assert_allclose(statistics.moments.total, total, rtol=1e-9, atol=1e-6)
    centred = table.copy()
    for c in range(5):
        np.testing.assert_allclose(statistics.moments.means[c], table[numbers == c].mean(axis=0), rtol=1e-12)
        centred[numbers == c] -= table[numbers == c].mean(axis=0)
    assert statistics.moments.within is not None
    np.testing.assert_allclose(statistics.moments.within, centred.T @ centred, rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(statistics.maximum, table.max(axis=0))
    np.testing.assert_array_equal(statistics.minimum, table.min(axis=0))


@given(st.integers(0, 1000), st.integers(1, 399), st.integers(1, 130))
def test_two_halves_equal_the_whole(seed: int, cut: int, step: int) -> None:
    features, labels = rows(seed)
    ids = torch.arange(400)
    whole = collect(features, labels, ids, step=400)
    halves = [collect(features[p], labels[p], ids[p], step=step) for p in (slice(0, cut), slice(cut, None))]
    assert_same(halves[0] + halves[1], whole, rtol=1e-10)
    assert_same(halves[1] + halves[0], whole, rtol=1e-10)


def test_only_what_is_needed_is_kept() -> None:
    features, labels = rows(1)
    lean = collect(features, labels, torch.arange(400), step=100, needs=Needs(mean=True))
    assert lean.moments.within is None
    assert lean.moments.means.shape == (1, 7)
    assert len(lean.bank) == 0
    np.testing.assert_allclose(lean.moments.mean, features.mean(dim=0), rtol=1e-12)


def test_needs_combine_and_speak() -> None:
    both = Needs(mean=True) | Needs(bank=3) | Needs(bank=ALL_ROWS, scatter=True)
    assert both == Needs(mean=True, scatter=True, bank=ALL_ROWS)
    assert both.names() == ["mean", "scatter", "all rows"]
    assert not Needs().anything


def test_statistics_that_do_not_match_are_refused() -> None:
    one, other = Statistics(Needs(mean=True), 4), Statistics(Needs(mean=True), 5)
    with pytest.raises(InputError, match="statistics do not match"):
        _ = one + other


def test_bank_does_not_depend_on_order_or_batches() -> None:
    features, labels = rows(2)
    ids = torch.arange(400)
    expected = ids[sample_keys(ids, 0).argsort()[:50]]
    for seed in range(3):
        order = torch.randperm(400, generator=torch.Generator().manual_seed(seed))
        bank = Bank(50, 7)
        for start in range(0, 400, 33):
            part = order[start : start + 33]
            bank.add(features[part], labels[part], ids[part])
        assert len(bank) == 50
        assert torch.equal(bank.ids, expected)
        assert torch.equal(bank.features, features[expected])
        assert torch.equal(bank.labels, labels[expected])


def test_a_smaller_bank_is_the_beginning_of_a_larger_one() -> None:
    features, labels = rows(3)
    ids = torch.arange(400)
    small, large = Bank(20, 7), Bank(ALL_ROWS, 7)
    for bank in (small, large):
        bank.add(features, labels, ids)
    assert torch.equal(small.ids, large.ids[:20])
    assert len(large) == 400


def test_bank_is_a_uniform_sample() -> None:
    keys = sample_keys(torch.arange(100_000), seed=4).double() / 2**63
    counts = torch.histc(keys, 20, 0, 1)
    assert (counts - 5000).abs().max() < 5 * 5000**0.5
    neighbours = torch.corrcoef(torch.stack([keys[:-1], keys[1:]]))[0, 1]
    assert abs(float(neighbours)) < 0.02
    assert not torch.equal(sample_keys(torch.arange(10), 0), sample_keys(torch.arange(10), 1))


def test_halves_with_the_same_ids_are_refused() -> None:
    features, labels = rows(4)
    first, second = (Statistics(Needs(bank=100), 7) for _ in range(2))
    first.update(features[:50], labels[:50])
    second.update(features[50:100], labels[50:100])
    with pytest.raises(InputError, match="same ids: pass distinct ids="):
        _ = first + second


def test_memory_does_not_grow_with_the_stream() -> None:
    features, labels = rows(5)
    statistics = Statistics(EVERYTHING, 7, classes=5)
    for repeat in range(30):
        statistics.update(features, labels, torch.arange(400) + 400 * repeat)
    assert statistics.count == 12_000
    assert len(statistics.bank) == 50
    assert sum(len(part[0]) for part in statistics.bank._parts) <= 50 + 4096 + 400
