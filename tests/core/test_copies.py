"""Fitted numbers in the precision of the rows: converted once, and again after a write."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import Tensor

import theodolite as th
from synthetic import make_problem
from theodolite.core import copies
from theodolite.core.copies import kept_like

ROWS = torch.ones(1)


@pytest.fixture
def factor() -> Tensor:
    return torch.arange(3, dtype=torch.float64)


def test_fitted_numbers_are_cast_once(factor: Tensor) -> None:
    one, other = (kept_like(factor, ROWS) for _ in range(2))
    assert one is other
    assert one.dtype == torch.float32
    assert kept_like(factor, ROWS.half()).dtype == torch.float16
    assert kept_like(factor, ROWS) is one


def test_what_needs_no_cast_is_itself(factor: Tensor) -> None:
    assert kept_like(factor, ROWS.double()) is factor


def test_a_write_is_seen(factor: Tensor) -> None:
    before = kept_like(factor, ROWS)
    factor[1] = 7
    assert kept_like(factor, ROWS).tolist() == [0, 7, 2]
    assert before.tolist() == [0, 1, 2]


def test_a_copy_goes_with_its_original() -> None:
    gc.collect()
    before = len(copies._copies)
    factor = torch.ones(3, dtype=torch.float64)
    kept_like(factor, ROWS)
    assert len(copies._copies) == before + 1
    del factor
    gc.collect()
    assert len(copies._copies) == before


def test_of_an_inference_tensor_no_copy_is_kept() -> None:
    with torch.inference_mode():
        factor = torch.ones(3, dtype=torch.float64)
        first = kept_like(factor, ROWS)
        factor[0] = 5
        assert kept_like(factor, ROWS).tolist() == [5, 1, 1]
    assert first.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["relative-energy", "vim", "pcos", "klm"])
def test_a_state_that_is_loaded_later_counts(name: str) -> None:
    """The buffers of a detector that has scored are replaced, or written to: no copy of theirs stays."""
    made, other = make_problem(seed=0), make_problem(seed=1)
    one, two = (th.create(name).fit(data.train, data.labels, head=data.head) for data in (made, other))
    target = copy.deepcopy(one)
    before = target.score(made.test)
    target.load_state_dict(two.state_dict())
    assert torch.equal(target.score(made.test), two.score(made.test))
    assert torch.equal(one.score(made.test), before)
