"""The blocked search against a plain sort of all products, whatever the order and the numbers of the bank."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from theodolite.geometry import neighbours
from theodolite.geometry.neighbours import top_similarities
from theodolite.reference.head import unit_rows

ROWS, QUERIES, WIDTH = 9_001, 40, 12
KINDS = ("random", "by class", "ascending", "duplicates", "zeros")


def made(kind: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    bank = torch.randn(ROWS, WIDTH, generator=generator)
    queries = unit_rows(torch.randn(QUERIES, WIDTH, generator=generator))
    if kind == "by class":
        bank += 4 * torch.eye(WIDTH)[torch.arange(ROWS) * WIDTH // ROWS]
    if kind == "duplicates":
        bank = bank[torch.arange(ROWS) % 30]
    bank = unit_rows(bank)
    if kind == "ascending":  # every block beats all before it, and the guess from the first is far too low
        bank = bank[(bank @ queries[0]).argsort()]
    if kind == "zeros":
        bank[100:8_000] = 0
    return bank, queries


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_CACHED_ROWS", 512)
    monkeypatch.setattr(neighbours, "_CACHED_PRODUCTS", 512)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("k", [1, 7, 50, 300, 10_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("descending", [False, True], ids=["as it is", "turned round"])
def test_the_same_as_a_sort_of_all_products(kind: str, k: int, descending: bool) -> None:
    bank, queries = made(kind)
    bank = bank.flip(0) if descending else bank
    expected = (queries.double() @ bank.double().T).sort(dim=1, descending=True).values[:, :k]
    for searched in (bank, [bank[:700], bank[700:5_003], bank[5_003:]]):
        values, places = top_similarities(queries, searched, k, order_only=descending)
        assert values.shape == places.shape == expected.shape
        torch.testing.assert_close(values.double(), expected, rtol=0, atol=1e-6)
        told = (queries[:, None] * bank[places]).sum(dim=2)
        torch.testing.assert_close(values, told, rtol=0, atol=1e-6)
        assert all(len(row.unique()) == row.numel() for row in places), "a row was found twice"


@pytest.mark.usefixtures("small_blocks")
def test_queries_for_which_the_first_block_misleads_are_searched_again() -> None:
    """All neighbours of a query lie in the first block: what is k-th there is k-th nowhere else."""
    bank, queries = made("random")
    near = unit_rows(queries[:1] + 0.01 * torch.randn(40, WIDTH, generator=torch.Generator().manual_seed(4)))
    bank = torch.cat([near, bank])
    plan = neighbours._plan(queries, bank, 50)
    assert plan.guess is not None
    assert plan.guess < 40
    values, _ = top_similarities(queries, bank, 50)
    expected = (queries @ bank.T).topk(50, dim=1).values
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("small_blocks")
def test_what_is_no_number_is_found_first_and_not_passed_over() -> None:
    bank, queries = made("random")
    bank[8_000] = torch.nan
    values, places = top_similarities(queries, bank, 5)
    assert bool(values[:, 0].isnan().all())
    assert places[:, 0].tolist() == [8_000] * QUERIES


def test_a_bank_in_half_precision_is_worked_in_that_of_the_queries() -> None:
    bank, queries = made("random")
    values, _ = top_similarities(queries, bank.half(), 9)
    expected = (queries.double() @ bank.half().double().T).topk(9, dim=1).values
    torch.testing.assert_close(values.double(), expected, rtol=0, atol=1e-6)
