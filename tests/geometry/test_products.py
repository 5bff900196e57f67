"""Products with a matrix that was laid out in advance, and the metric that is worked with them."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import Tensor

from theodolite.geometry import products
from theodolite.geometry.inner_product import Mahalanobis, Spectrum, spectrum
from theodolite.geometry.products import Products, laid_out_product, lay_out

needs_onednn = pytest.mark.skipif(lay_out(torch.eye(8), 1) is None, reason="PyTorch without oneDNN")


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@cache
def covariance(width: int) -> Spectrum:
    rows = numbers(2 * width, width).double() * torch.linspace(0.5, 2, width, dtype=torch.float64)
    return spectrum(torch.cov(rows.T), len(rows))


def metric(width: int) -> Mahalanobis:
    return Mahalanobis(covariance(width))


def exact_squares(known: Mahalanobis, rows: Tensor) -> Tensor:
    """xᵀ Σ⁻¹ x by the definition, in float64."""
    directions, variances, _ = known.spectrum
    squares: Tensor = ((rows.double() @ directions).square() / variances).sum(dim=1)
    return squares


@needs_onednn
@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 500])
def test_the_product_is_the_plain_one(count: int) -> None:
    matrix, rows = numbers(96, 300), numbers(count, 400, seed=1)[:, 100:]
    layout = lay_out(matrix, 32)
    assert layout is not None
    exact = rows.double() @ matrix.double().T
    torch.testing.assert_close(laid_out_product(rows, layout).double(), exact, rtol=1e-5, atol=1e-4)


def test_only_single_precision_is_laid_out() -> None:
    assert lay_out(torch.eye(8, dtype=torch.float64), 1) is None
    assert lay_out(torch.eye(8, dtype=torch.bfloat16), 1) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("queries", [1, 5, 200])
@pytest.mark.parametrize("fastest", [False, True])
def test_products_of_blocks_of_any_size(queries: int, dtype: torch.dtype, fastest: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    fixed = torch.randn(queries, 33, generator=generator, dtype=dtype)
    with_queries = Products(fixed, 64, fastest=fastest)
    for rows in (64, 63, 1, 200):
        block = torch.randn(rows, 33, generator=generator, dtype=dtype)
        torch.testing.assert_close(with_queries(block), block @ fixed.T, rtol=1e-5, atol=1e-5)


@needs_onednn
@pytest.mark.parametrize("width", [1_024, 1_100])
@pytest.mark.parametrize("count", [1, 40])
def test_lengths_are_those_of_the_definition(width: int, count: int) -> None:
    known, rows = metric(width), numbers(count, width, seed=2)
    lengths = known.coordinates(rows).double().square().sum(dim=1)
    assert known._for(rows).blocks[0].is_mkldnn
    torch.testing.assert_close(lengths, exact_squares(known, rows), rtol=1e-5, atol=0)


def test_a_layout_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "laid_out_product", lambda rows, _: torch.zeros(len(rows), 8))
    assert lay_out(torch.eye(8), 1) is None


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_without_the_layout_the_product_is_plain(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def missing(*_: Tensor) -> Tensor:
        raise error("no such operator")

    monkeypatch.setattr(products, "laid_out_product", missing)
    known, rows = metric(1_024), numbers(5, 1_024)
    lengths = known.coordinates(rows).double().square().sum(dim=1)
    assert not known._for(rows).blocks[0].is_mkldnn
    torch.testing.assert_close(lengths, exact_squares(known, rows), rtol=1e-5, atol=0)


def test_a_metric_in_use_is_copied_and_pickled() -> None:
    known, rows = metric(1_024), numbers(5, 1_024)
    right = known.coordinates(rows)
    for other in (copy.deepcopy(known), pickle.loads(pickle.dumps(known))):
        assert torch.equal(other.coordinates(rows), right)


def test_threads_share_a_metric() -> None:
    known, rows = metric(1_024), numbers(64, 1_024)
    right = metric(1_024).coordinates(rows)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(known.coordinates, [rows] * 64))
    assert all(torch.allclose(one, right, rtol=1e-5, atol=1e-5) for one in found)


def test_a_narrow_factor_is_multiplied_as_it_is() -> None:
    known, rows = metric(300), numbers(5, 300)
    known.coordinates(rows)
    assert not known._for(rows).blocks[0].is_mkldnn
