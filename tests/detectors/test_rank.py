"""Fewer rows than dimensions: directions without a variance are chosen by no rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import theodolite as th
from theodolite.core.errors import FittingWarning, InputError

MAKERS: dict[str, Callable[[], th.Detector]] = {
    "residual": th.Residual,
    "residual of 40": lambda: th.Residual(dimension=40),
    "vim": th.ViM,
    "cop": th.CoP,
    "cop of all": lambda: th.CoP(variance=1.0),
}


@pytest.fixture
def rows() -> Tensor:
    return torch.randn(20, 64, generator=torch.Generator().manual_seed(1)) + 1


@pytest.fixture
def new() -> Tensor:
    return torch.randn(50, 64, generator=torch.Generator().manual_seed(2)) + 1


def head_of(bias: float) -> th.Head:
    generator = torch.Generator().manual_seed(3)
    return th.Head(torch.randn(5, 64, generator=generator), bias * torch.randn(5, generator=generator))


@pytest.mark.parametrize("bias", [1.0, 1e6], ids=["near origin", "far origin"])
@pytest.mark.parametrize("name", MAKERS)
def test_permuted_rows_and_merged_halves_score_alike(
    rows: Tensor, new: Tensor, name: str, bias: float
) -> None:
    head, made = head_of(bias), MAKERS[name]
    whole = made().fit(rows, head=head).score(new.double())
    order = torch.randperm(20, generator=torch.Generator().manual_seed(4))
    permuted = made().fit(rows[order], head=head).score(new.double())
    torch.testing.assert_close(permuted, whole, rtol=1e-6, atol=1e-6)
    parts = [
        made().collect(rows[part], head=head, ids=torch.arange(20)[part])
        for part in (slice(0, 7), slice(7, 20))
    ]
    merged = made().fit(parts[0] + parts[1]).score(new.double())
    torch.testing.assert_close(merged, whole, rtol=1e-6, atol=1e-6)


def test_what_the_rows_do_not_span_is_all_residual(rows: Tensor, new: Tensor) -> None:
    """By a least-squares fit of each new row to the rows, seen from the origin of the logits."""
    head = head_of(1.0)
    detector = th.Residual().fit(rows, head=head)
    assert detector.residual.shape == (64, 44)
    seen, asked = rows.double() - detector.origin, new.double() - detector.origin
    left = asked.T - seen.T @ torch.linalg.lstsq(seen.T, asked.T).solution
    torch.testing.assert_close(detector.score(new.double()), -left.norm(dim=0), rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["cop", "corp"])
def test_more_directions_than_vary_are_refused(rows: Tensor, name: str) -> None:
    th.create(name, dimension=19).fit(rows)
    for dimension in (20, 30, 1_000):
        with pytest.raises(InputError, match=rf"at most 19, .* the 20 rows vary, got {dimension}$"):
            th.create(name, dimension=dimension).fit(rows)


@pytest.mark.parametrize("name", ["rmds", "rmaha+"])
def test_relative_distances_in_different_directions_are_warned_of(name: str) -> None:
    """Two rows a class vary in 30 of 40 directions; what lies in the others counts for a sample."""
    generator = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(60, 40, generator=generator), torch.arange(30).repeat(2)
    with pytest.warns(FittingWarning, match="in 40 directions, but within classes in 30 only"):
        detector = th.create(name).fit(rows, labels)
    deviations = rows[:30].double() - rows[30:].double()
    unseen = torch.linalg.svd(deviations, full_matrices=True).Vh[-1].float()
    if name == "rmds":
        near, far = rows[:1], rows[:1] + 100 * unseen
        assert float(detector.score(far)) > float(detector.score(near)) + 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        th.create(name).fit(torch.randn(300, 40, generator=generator), torch.arange(30).repeat(10))
