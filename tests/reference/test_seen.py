"""An account of samples: exact up to its limit, and beyond it a sample that any two accounts agree on."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.errors import InputError
from theodolite.reference.pairs import merged_in_pairs
from theodolite.reference.seen import Seen

numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), max_size=30)


def seen(values: list[int], limit: int = 10**6) -> Seen:
    account = Seen(limit)
    for start in range(0, len(values), 7):
        account.add(torch.tensor(values[start : start + 7], dtype=torch.int64))
    return account


def content(account: Seen) -> dict[int, int]:
    return dict(zip(account.values.tolist(), account.times.tolist(), strict=True))


@given(numbers, numbers)
def test_up_to_the_limit_it_is_a_count_of_every_value(one: list[int], other: list[int]) -> None:
    merged = seen(one) + seen(other)
    assert content(merged) == Counter(one + other)
    assert merged.whole
    assert merged.count == len(one + other)
    assert merged.repeated == sum(times > 1 for times in Counter(one + other).values())
    assert seen(one).comparable(seen(other)) == (len(other), sum(value in one for value in other))


@given(st.lists(numbers, min_size=1, max_size=6), st.integers(1, 8), st.randoms(use_true_random=False))
def test_a_cut_account_does_not_depend_on_order_or_grouping(
    parts: list[list[int]], limit: int, random: object
) -> None:
    whole = seen([value for part in parts for value in part], limit)
    random.shuffle(parts)  # type: ignore[attr-defined]
    merged = merged_in_pairs((seen(part, limit) for part in parts), "parts")
    assert content(merged) == content(whole)
    assert merged.count == whole.count
    assert merged.whole == (len(set(whole.values.tolist())) == len({v for part in parts for v in part}))


def test_beyond_the_limit_shared_samples_are_found_as_often_as_said() -> None:
    """(1 − r)^m: with a tenth kept, 20 shared samples are missed in 12 % of the cases."""
    missed, cases = 0, 400
    for case in range(cases):
        ids = torch.randint(0, 2**62, (1980,), generator=torch.Generator().manual_seed(case)).tolist()
        one, other = seen(ids[:1000], 100), seen(ids[980:], 100)
        missed += one.comparable(other)[1] == 0
        assert one.comparable(one)[1] == 100, "the same samples are always found"
    assert missed / cases == pytest.approx(0.9**20, abs=0.06)


def test_nothing_to_merge_is_refused() -> None:
    with pytest.raises(InputError, match="references is empty"):
        merged_in_pairs(iter([]), "references")
