"""Grids of settings by their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.errors import InputError
from theodolite.detectors.grid import expand_grid, expand_grids


def test_braces_hold_the_values_to_try() -> None:
    assert expand_grid("ora") == ["ora"]
    assert expand_grid("knn?k={10, 50,200}") == ["knn?k=10", "knn?k=50", "knn?k=200"]
    assert expand_grid("ora?aggregate={max,mean}+scale:{80,90}") == [
        "ora?aggregate=max+scale:80",
        "ora?aggregate=max+scale:90",
        "ora?aggregate=mean+scale:80",
        "ora?aggregate=mean+scale:90",
    ]
    assert expand_grid("{ora,knn}+react:90") == ["ora+react:90", "knn+react:90"]


def test_what_two_grids_name_is_there_once() -> None:
    assert expand_grids(["knn?k={10,50}", "knn?k={50,99}"]) == ["knn?k=10", "knn?k=50", "knn?k=99"]


@given(st.lists(st.lists(st.sampled_from(["1", "b", "0.5"]), min_size=1, max_size=3), max_size=4))
def test_as_many_texts_as_there_are_combinations(choices: list[list[str]]) -> None:
    text = "a" + "".join(f"={{{','.join(values)}}}" for values in choices)
    found = expand_grid(text)
    count = 1
    for values in choices:
        count *= len(values)
    assert len(found) == count
    assert all("{" not in part and part.count("=") == len(choices) for part in found)


@pytest.mark.parametrize("text", ["knn?k={10", "knn?k=10}", "knn?k={{1,2},3}", "knn?k={10}}"])
def test_braces_that_do_not_match_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="braces must come in pairs"):
        expand_grid(text)


@pytest.mark.parametrize("text", ["knn?k={}", "knn?k={1,}", "knn?k={,2}"])
def test_an_empty_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="has an empty value"):
        expand_grid(text)
