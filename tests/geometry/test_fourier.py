"""Random Fourier features: the kernel they stand for, and numbers that are the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from theodolite.geometry.fourier import drawn_waves, fourier_features


@pytest.mark.parametrize("gamma", [0.5, 2.0, 3.0])
def test_inner_products_are_those_of_the_kernel(gamma: float) -> None:
    """A mean of M terms in −1..1 with a variance of at most 1: five of its deviations."""
    rng = torch.Generator().manual_seed(1)
    rows = torch.nn.functional.normalize(torch.randn(40, 20, generator=rng, dtype=torch.float64), dim=1)
    components = 8192
    mapped = fourier_features(rows, *drawn_waves(20, components, gamma, 3))
    assert mapped.dtype == torch.float64
    expected = np.exp(-gamma * torch.cdist(rows, rows).square().numpy())
    assert np.abs((mapped @ mapped.T).numpy() - expected).max() < 5 / components**0.5
    narrow = fourier_features(rows.float(), *drawn_waves(20, components, gamma, 3))
    torch.testing.assert_close(narrow.double(), mapped, rtol=0, atol=1e-6)


def test_they_are_drawn_from_the_distributions_that_are_stated() -> None:
    waves = drawn_waves(64, 1024, 2.0, 0)
    assert waves.frequencies.shape == (1024, 64)
    assert waves.frequencies.dtype == waves.phases.dtype == torch.float32
    normal = waves.frequencies.double().numpy() / 2.0  # √(2γ) = 2
    assert stats.kstest(normal.ravel(), "norm").pvalue > 0.01
    assert stats.kstest(waves.phases.double().numpy() / (2 * np.pi), "uniform").pvalue > 0.01
    # Neighbours in the order of drawing know nothing of each other.
    for shift in (1, 2, 64):
        pairs = np.corrcoef(normal.ravel()[:-shift], normal.ravel()[shift:])[0, 1]
        assert abs(pairs) < 5 / normal.size**0.5


def test_the_numbers_do_not_change() -> None:
    """Parts collected by another version, or on another machine, must have been mapped by the same waves."""
    waves = drawn_waves(48, 2048, 2.0, 0)
    first = [1.846311330795288, -2.5089621543884277, 0.9292567372322083, -1.5600965023040771]
    np.testing.assert_allclose(waves.frequencies.flatten()[:4], first, rtol=2e-7)
    np.testing.assert_allclose(waves.phases[:2], [5.931330680847168, 5.650020122528076], rtol=2e-7)
    before = torch.random.get_rng_state()
    drawn_waves.cache_clear()
    torch.manual_seed(99)
    torch.testing.assert_close(drawn_waves(48, 2048, 2.0, 0).frequencies, waves.frequencies, rtol=0, atol=0)
    torch.random.set_rng_state(before)
    assert not torch.equal(drawn_waves(48, 2048, 2.0, 1).frequencies, waves.frequencies)
