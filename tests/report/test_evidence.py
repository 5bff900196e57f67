"""The figure of the evidence: the line of the alarm, its moment, and a course in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from theodolite.report.evidence import Trace, odds_text
from theodolite.report.figures import evidence_over_time


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]


def test_a_course_keeps_its_peaks_in_bounded_memory() -> None:
    values = np.random.default_rng(0).standard_normal(50_000)
    values[31_234] = 99
    trace, split = Trace(first=11), Trace(first=11)
    trace.add(values)
    for part in np.array_split(values, 77):
        split.add(part)
    assert (trace.highest, trace.stride) == (split.highest, split.stride)
    assert len(trace.highest) <= 4_096
    top = int(np.argmax(trace.highest))
    assert trace.highest[top] == 99
    assert trace.samples[top] <= 11 + 31_234 < trace.samples[top] + trace.stride
    blocks = values[: 50_000 // trace.stride * trace.stride].reshape(-1, trace.stride)
    np.testing.assert_array_equal(trace.highest[: len(blocks)], blocks.max(axis=1))


def test_the_figure_shows_the_alarm_and_its_moment() -> None:
    trace = Trace()
    trace.add(np.concatenate([np.full(60, -0.5), np.linspace(-0.5, 40, 40)]))
    figure = evidence_over_time(trace, threshold=2, alarmed_at=63, title="a stream")
    (panel,) = figure.axes
    said = words(figure)
    assert {"a stream", "alarm at 100 : 1; raised at sample 63", "up to 10⁴⁰ : 1 ↑"} <= set(said)
    assert panel.get_ylim()[1] < 10, "the moment of the alarm can be seen"
    dots = [line for line in panel.lines if line.get_marker() == "o"]
    assert [np.asarray(dot.get_xdata()).tolist() for dot in dots] == [[63]]
    figure.draw_without_rendering()
    assert "1" in [label.get_text() for label in panel.get_yticklabels()]


@pytest.mark.parametrize("values", [[], [0.1], [-3.0, -2.0]])
def test_without_an_alarm_there_is_no_moment(values: list[float]) -> None:
    trace = Trace(first=5)
    trace.add(np.array(values))
    figure = evidence_over_time(trace, threshold=2, alarmed_at=3, title="")
    assert not [line for line in figure.axes[0].lines if line.get_marker() == "o"], (
        "raised before this figure"
    )
    figure = evidence_over_time(trace, threshold=2, alarmed_at=None, title="")
    assert "alarm at 100 : 1" in words(figure)
    figure.draw_without_rendering()


@pytest.mark.parametrize(
    ("power", "text"),
    [
        (0, "1"), (2, "100"), (-0.6, "0.25"), (4.08, "12,000"), (5.999, "1,000,000"), (6, "10⁶"),
        (54.72, "10⁵⁴·⁷"), (-34.5, "10⁻³⁴·⁵"), (-3, "0.001"), (float("-inf"), "0"), (float("inf"), "∞"),
    ],
)  # fmt: skip
def test_odds_in_words(power: float, text: str) -> None:
    assert odds_text(power) == text
