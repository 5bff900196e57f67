"""The triangle against its definition."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles
from theodolite import Head
from theodolite.geometry.boundaries import Boundaries
from theodolite.geometry.triangle import (
    over_norm,
    pairwise_lengths,
    reciprocal_lengths,
    sine_alpha,
    squared_distances,
    triangle,
)


def test_lengths_equal_the_direct_norms() -> None:
    rows = torch.randn(9, 30, generator=torch.Generator().manual_seed(0))
    wide = rows.double()
    direct = torch.linalg.vector_norm(wide[:, None] - wide[None], dim=2)
    torch.testing.assert_close(pairwise_lengths(rows), direct, rtol=1e-12, atol=0)


def test_near_duplicates_keep_their_digits_and_duplicates_are_zero() -> None:
    rows = torch.randn(5, 64, generator=torch.Generator().manual_seed(1)) * 100
    rows[1] = rows[0]
    rows[3] = rows[2]
    rows[3, 7] = torch.nextafter(rows[3, 7], torch.tensor(torch.inf))
    lengths = pairwise_lengths(rows)
    assert lengths[0, 1] == 0
    assert lengths[2, 3] == abs(float(rows[3, 7].double() - rows[2, 7].double()))
    assert (lengths == lengths.T).all()
    assert (lengths.diagonal() == 0).all()
    assert reciprocal_lengths(lengths)[0, 1] == 0
    assert torch.isfinite(reciprocal_lengths(lengths)).all()


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 5))
def test_all_sides_and_angles_of_the_triangle(seed: int, width: int, classes: int) -> None:
    """d, θ, sin α and the ratio of fDBD, each from the projected point itself."""
    rng = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, width, generator=rng, dtype=torch.float64)
    bias = torch.randn(classes, generator=rng, dtype=torch.float64)
    z, mu = (torch.randn(width, generator=rng, dtype=torch.float64) for _ in range(2))
    head = Head(weight, bias)
    boundaries = Boundaries(head)
    margins = boundaries.margins(head(z[None]))
    p = int(margins.predicted[0])
    at_mu = head(mu[None])
    e = (at_mu[:, p, None] - at_mu) * margins.reciprocal
    norm = (z - mu).square().sum()[None, None]
    seen = triangle(margins.distance, e, norm)
    alphas, ratios = sine_alpha(seen.height, e), over_norm(margins.distance, norm.sqrt())
    for c in range(classes):
        if c == p:
            continue
        w, b = weight.numpy(), bias.numpy()
        z_db = oracles.projection(z.numpy(), w[p], w[c], b[p], b[c])
        distance = np.linalg.norm(z.numpy() - z_db)
        np.testing.assert_allclose(margins.distance[0, c], distance, atol=1e-9)
        theta = oracles.small_angle(z.numpy(), z_db, mu.numpy())
        np.testing.assert_allclose(seen.angles()[0, c], theta, atol=2e-7)
        at_projection = oracles.small_angle(z.numpy(), mu.numpy(), z_db)
        np.testing.assert_allclose(alphas[0, c], np.sin(at_projection), atol=2e-7)
        np.testing.assert_allclose(ratios[0, c], distance / np.linalg.norm(z.numpy() - mu.numpy()), rtol=1e-9)
        np.testing.assert_allclose(np.sin(theta), ratios[0, c] * alphas[0, c], atol=2e-7)


def test_squared_distances_survive_a_large_offset() -> None:
    rng = torch.Generator().manual_seed(0)
    points, rows = torch.randn(7, 20, generator=rng) + 1000, torch.randn(5, 20, generator=rng) + 1000
    direct = (rows[:, None].double() - points[None].double()).square().sum(dim=2)
    torch.testing.assert_close(squared_distances(rows, points).double(), direct, rtol=1e-6, atol=0)


def test_undefined_angles_do_not_hide_defined_ones() -> None:
    """A projection that falls on the centre has no angle; the other boundaries of the row still count."""
    distance = torch.tensor([[1.0, 0.5], [1.0, 0.0]], dtype=torch.float64)
    centre = torch.tensor([[0.0, 0.25], [0.0, 0.0]], dtype=torch.float64)
    norm = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    seen = triangle(distance, centre, norm)
    largest = seen.largest_angle()
    assert torch.isfinite(largest).all()
    in_float32 = triangle(distance.float(), centre.float(), norm.float()).largest_angle()
    assert torch.isnan(in_float32).all(), "float32 leaves such a row to the second look"
    torch.testing.assert_close(largest[0], seen.angles()[0, 1])
    assert largest[1] == 0
