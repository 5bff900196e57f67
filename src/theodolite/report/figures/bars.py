"""A metric by detector as bars, with a tick where a paper's number stands."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...benchmarks.feature_sets import AVERAGE
from ...benchmarks.result import RunResult
from ...evaluation import metric as metric_called
from .style import ID_COLOUR, INK, QUIET, panels, plain


def metric_bars(
    result: RunResult,
    subject: str,
    *,
    metric: str = "fpr95",
    ood: str = AVERAGE,
    detectors: Sequence[str] | None = None,
    highlight: Sequence[str] = ("ORA",),
    title: str,
) -> Figure:
    """One bar a detector, the best on top; ``ood`` is one OOD set or the average over all."""
    known = metric_called(metric)
    cells = [result.cell(subject, name, ood, metric) for name in detectors or result.detector_names(subject)]
    cells.sort(key=lambda cell: cell.value, reverse=known.lower_is_better)
    names = [cell.detector for cell in cells]
    figure, grid = panels(
        1,
        1,
        size=(5.0, 0.27 * len(names)),
        gap=(0, 0),
        margin=(0.35 + 0.085 * max(len(name) for name in names), 0.35, 0.6, 0.6),
        title=title,
    )
    panel = grid[0][0]
    ticks = {place: cell.published[0].value for place, cell in enumerate(cells) if cell.published}
    for place, cell in enumerate(cells):
        alpha = 1.0 if cell.detector in highlight else 0.5
        panel.barh(place, cell.value, height=0.68, color=ID_COLOUR, alpha=alpha)
        # Beyond both the bar and the published tick, so that the number stays readable.
        end = max(cell.value, ticks.get(place, 0.0))
        panel.text(end + 1, place, f"{cell.value:.1f}", va="center", fontsize=8, color=INK)
    _draw_ticks(panel, ticks)
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_xlim(0, max([*(cell.value for cell in cells), *ticks.values()]) * 1.08 + 1)
    better = "lower" if known.lower_is_better else "higher"
    panel.set_xlabel(f"{known.title} in % ({ood}), {better} is better", fontsize=9, color=INK)
    panel.grid(axis="x", color=QUIET, alpha=0.25, linewidth=0.6)
    panel.set_axisbelow(True)
    plain(panel, "top", "right", "left")
    panel.tick_params(axis="y", length=0)
    return figure


def _draw_ticks(panel: Axes, ticks: dict[int, float]) -> None:
    """The published values, by the place of their bar."""
    if not ticks:
        return
    panel.plot(
        list(ticks.values()),
        list(ticks),
        linestyle="none",
        marker="|",
        markersize=13,
        markeredgewidth=2,
        color=INK,
        label="published",
    )
    panel.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))
