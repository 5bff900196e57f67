"""The supervised contrastive loss against its formula, loop by loop in float64, and its gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from theodolite.core.errors import InputError
from theodolite.training import supcon_loss
from theodolite.training.contrastive import Projection


def by_loops(rows: Tensor, labels: list[int], temperature: float) -> float:
    """L_out of Khosla et al. (2020), mean over anchors, written as the equation is."""
    points = [[float(value) for value in row] for row in rows.double()]
    lengths = [math.sqrt(sum(value**2 for value in point)) for point in points]
    points = [[value / length for value in point] for point, length in zip(points, lengths, strict=True)]

    def kernel(i: int, j: int) -> float:
        return math.exp(sum(a * b for a, b in zip(points[i], points[j], strict=True)) / temperature)

    terms = []
    for i in range(len(points)):
        others = [a for a in range(len(points)) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        if not positives:
            continue
        whole = sum(kernel(i, a) for a in others)
        terms.append(-sum(math.log(kernel(i, p) / whole) for p in positives) / len(positives))
    return sum(terms) / len(terms)


@given(
    seed=st.integers(0, 10_000),
    labels=st.lists(st.integers(0, 3), min_size=2, max_size=9).filter(
        lambda some: len(set(some)) < len(some)
    ),
    temperature=st.floats(0.05, 5),
)
def test_the_loss_is_its_formula(seed: int, labels: list[int], temperature: float) -> None:
    rows = torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = supcon_loss(rows, torch.tensor(labels), temperature=temperature)
    assert float(found) == pytest.approx(by_loops(rows, labels, temperature), rel=1e-9, abs=1e-9)


def test_its_gradient_is_that_of_the_formula() -> None:
    rows = torch.randn(
        8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 3, 2])  # the 3 is no anchor

    def loss(values: Tensor) -> Tensor:
        return supcon_loss(values, labels, temperature=0.2)

    assert torch.autograd.gradcheck(loss, (rows,))


def test_views_side_by_side_or_one_after_another_are_the_same() -> None:
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    order = torch.tensor([0, 2, 4, 1, 3, 5])
    assert supcon_loss(rows, labels) == pytest.approx(float(supcon_loss(rows[order], labels[order])))


def test_low_temperatures_do_not_overflow() -> None:
    rows = torch.nn.functional.normalize(
        torch.randn(16, 8, generator=torch.Generator().manual_seed(2)), dim=1
    )
    assert torch.isfinite(supcon_loss(rows, torch.arange(8).repeat(2), temperature=1e-3))


def test_what_the_loss_cannot_be_taken_of_is_refused() -> None:
    rows = torch.eye(3)
    with pytest.raises(InputError, match="no two rows have one label"):
        supcon_loss(rows, torch.arange(3))
    with pytest.raises(InputError, match=r"got \(3, 3\) and \(2,\)"):
        supcon_loss(rows, torch.zeros(2))
    with pytest.raises(InputError, match="temperature must be above 0, got 0"):
        supcon_loss(rows, torch.zeros(3), temperature=0)


def test_the_projection_keeps_the_width_until_its_end() -> None:
    assert [tuple(part.shape) for part in Projection(6, 3).parameters()] == [(6, 6), (6,), (3, 6), (3,)]
