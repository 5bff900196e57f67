"""Batches of tensors, tuples and mappings: called, counted, changed, put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from theodolite.core.batches import Inputs, called, described, is_batch, mapped, moved, rows_in, stacked
from theodolite.core.errors import InputError


def said(*args: object, **named: object) -> tuple[tuple[object, ...], dict[str, object]]:
    return args, named


def test_a_batch_is_called_as_it_is_made() -> None:
    one, two = torch.ones(2, 3), torch.zeros(2)
    assert called(said, one) == ((one,), {})
    assert called(said, (one, two)) == ((one, two), {})
    assert called(said, [one, two]) == ((one, two), {})
    assert called(said, {"x": one, "mask": two}) == ((), {"x": one, "mask": two})
    assert called(said, ({"x": one},)) == (({"x": one},), {})


def test_rows_are_those_of_the_first_tensor() -> None:
    assert rows_in({"ids": torch.ones(4, 7), "lengths": torch.ones(4)}) == 4
    assert rows_in(((torch.ones(3, 1), torch.ones(1, 1)),)) == 3
    nothing: list[Inputs] = [{}, (), {"scale": torch.tensor(2.0)}, [[]]]
    for empty in nothing:
        with pytest.raises(InputError, match="expected a batch"):
            rows_in(empty)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.ones(2), True),
        ({"x": torch.ones(2)}, True),
        ([], False),
        (["a text"], False),
        ("x", False),
        ({}, False),
    ],
)
def test_what_is_a_batch(value: object, expected: bool) -> None:
    assert is_batch(value) is expected


def test_numbers_move_to_the_precision_of_the_model_and_names_do_not() -> None:
    batch = moved(
        {"ids": torch.tensor([1, 2]), "wave": torch.ones(2, 4, dtype=torch.float64)},
        torch.ones(1, dtype=torch.float32),
    )
    assert isinstance(batch, dict)
    assert (batch["ids"].dtype, batch["wave"].dtype) == (torch.int64, torch.float32)


trees = st.recursive(
    st.integers(1, 3).map(lambda size: torch.arange(size, dtype=torch.float32)),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1), st.tuples(inner, inner), st.tuples(inner)
    ),
    max_leaves=6,
)


@given(trees, st.integers(1, 4))
def test_samples_that_are_alike_make_a_batch_of_the_same_form(sample: Inputs, count: int) -> None:
    batch = stacked([mapped(sample, partial(torch.add, torch.tensor(float(by)))) for by in range(count)])
    assert rows_in(batch) == count
    for row in range(count):
        _same(mapped(batch, partial(_row, row)), sample)


def _row(row: int, tensor: Tensor) -> Tensor:
    return tensor[row] - row


def _same(one: Inputs, other: Inputs) -> None:
    if isinstance(one, Tensor):
        assert isinstance(other, Tensor)
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        for name in one:
            _same(one[name], other[name])
    else:
        assert isinstance(one, Sequence)
        assert isinstance(other, Sequence)
        for first, second in zip(one, other, strict=True):
            _same(first, second)


@pytest.mark.parametrize(
    ("samples", "match"),
    [
        ([torch.ones(2), torch.ones(3)], "different shapes"),
        ([{"a": torch.ones(2)}, {"b": torch.ones(2)}], "different names"),
        ([(torch.ones(2),), (torch.ones(2), torch.ones(2))], "different numbers of parts"),
        ([torch.ones(2), "text"], "gives a Tensor"),
        (["text"], "gives a str, expected a tensor"),
    ],
)
def test_samples_that_are_not_alike(samples: list[object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        stacked(samples)


def test_words() -> None:
    assert described({"ids": torch.ones(2, 3)}) == "a mapping of ids (2, 3)"
    assert described((torch.ones(2), [])) == "a tuple of (2,), list"
    assert described(torch.ones(2)) == "a tensor of shape (2,)"
    assert described({}) == "a mapping of nothing"
    assert described("x") == "a str"
