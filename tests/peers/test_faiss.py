"""The blocked search against faiss: the same neighbours at the same distances."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import theodolite as th
from theodolite.geometry.neighbours import top_similarities
from theodolite.reference.head import unit_rows

pytestmark = pytest.mark.peers
faiss = pytest.importorskip("faiss", reason="make test-peers installs it")

BANK, QUERIES, WIDTH, K = 20_000, 300, 64, 50


@pytest.fixture(scope="module")
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(BANK, WIDTH, generator=rng), torch.randn(QUERIES, WIDTH, generator=rng)


def test_neighbours_equal_those_of_an_exact_index(rows: tuple[torch.Tensor, torch.Tensor]) -> None:
    bank, queries = (unit_rows(part) for part in rows)
    index = faiss.IndexFlatL2(WIDTH)
    index.add(bank.numpy())
    squared, theirs = index.search(queries.numpy(), K)
    similarities, places = top_similarities(queries, bank, K)
    # Two neighbours may change places where their distances agree to float32.
    assert (np.sort(places.numpy()) == np.sort(theirs)).mean() > 0.999
    np.testing.assert_allclose(2 - 2 * similarities.numpy(), squared, rtol=1e-4, atol=1e-5)


def test_knn_scores_equal_the_root_of_their_squared_distance(
    rows: tuple[torch.Tensor, torch.Tensor],
) -> None:
    bank, queries = rows
    index = faiss.IndexFlatL2(WIDTH)
    index.add(unit_rows(bank).numpy())
    squared, _ = index.search(unit_rows(queries).numpy(), K)
    scores = th.KNN(k=K).fit(bank).score(queries)
    np.testing.assert_allclose(scores.numpy(), -np.sqrt(squared[:, -1]), rtol=1e-5)


def test_inner_product_index_gives_nnguide(rows: tuple[torch.Tensor, torch.Tensor]) -> None:
    bank, queries = rows
    head = th.Head(torch.randn(10, WIDTH, generator=torch.Generator().manual_seed(1)) / 8)
    guide = torch.logsumexp(head(bank), dim=1, keepdim=True) * unit_rows(bank)
    index = faiss.IndexFlatIP(WIDTH)
    index.add(guide.numpy())
    products, _ = index.search(unit_rows(queries).numpy(), 10)
    expected = torch.logsumexp(head(queries), dim=1).numpy() * products.mean(axis=1)
    scores = th.NNGuide(fraction=1.0).fit(bank, head=head).score(queries)
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-5)
