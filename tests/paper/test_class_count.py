"""Deviations over draws of classes: n − 1 in the denominator, as in every table with ±; none of one draw."""

from __future__ import annotations

import statistics

import pytest

from theodolite.paper.experiments.class_count import COMPARED, ClassCount, Row, _spread

VALUES = [12.5, 14.0, 9.75, 30.25]


def table_of(draws: list[float]) -> list[str]:
    found = dict.fromkeys(COMPARED, _spread(draws))
    row = Row("made", 3, len(draws), found, found, "mean")
    (table,) = ClassCount(title="", command="", rows=(row,)).tables()
    ((_, cells),) = table.rows
    return [cell.text for cell in cells]


def test_the_deviation_is_that_of_a_sample() -> None:
    found = _spread(VALUES)
    assert found.std == pytest.approx(statistics.stdev(VALUES), abs=1e-4)
    assert f"{statistics.mean(VALUES):.2f} ± {statistics.stdev(VALUES):.2f}" in table_of(VALUES)[2]


def test_one_draw_has_no_deviation() -> None:
    assert "12.50, 12.50" in table_of([12.5])
    assert not any("±" in text for text in table_of([12.5]))
