"""Evidence over time: what a monitor gained against the claim that nothing has changed, and the alarm.

Evidence may grow without end. The figure stops at the cube of what raises an alarm: its moment can be seen.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..evidence import Trace, odds_text
from .style import ID_COLOUR, INK, OOD_COLOUR, QUIET, panels, plain

_SHOWN = 3


def evidence_over_time(trace: Trace, *, threshold: float, alarmed_at: int | None, title: str) -> Figure:
    """The evidence sample by sample, the line of the alarm, and the moment it was reached."""
    figure, ((panel,),) = panels(
        1, 1, size=(6.6, 2.9), gap=(0.3, 0.3), margin=(0.8, 0.35, 0.55, 0.5), title=title
    )
    samples, values = trace.samples, np.array(trace.highest)
    low, high = min([-0.5, *trace.highest]), max([threshold, *trace.highest])
    top = min(high, _SHOWN * threshold)
    panel.set_ylim(low - 0.05 * (top - low), top + 0.18 * (top - low))
    panel.set_xlim(trace.first, max([trace.first + 1, *samples[-1:]]))
    panel.axhspan(threshold, panel.get_ylim()[1], color=OOD_COLOUR, alpha=0.08, linewidth=0)
    panel.axhline(threshold, color=OOD_COLOUR, linewidth=1, linestyle="--")
    panel.axhline(0, color=QUIET, linewidth=0.6, linestyle=":")
    panel.plot(samples, values, color=ID_COLOUR, linewidth=1.3)
    _words(panel, threshold, alarmed_at)
    if high > top:
        words = f"up to {odds_text(high)} : 1 ↑"
        panel.text(
            0.99, 0.98, words, transform=panel.transAxes, ha="right", va="top", fontsize=8.5, color=INK
        )
    if alarmed_at is not None and alarmed_at >= trace.first:
        panel.axvline(alarmed_at, color=OOD_COLOUR, linewidth=0.8)
        at = float(np.interp(alarmed_at, samples, values))
        panel.plot([alarmed_at], [max(at, threshold)], "o", color=OOD_COLOUR, markersize=6)
    panel.set_xlabel("samples", fontsize=9, color=INK)
    panel.set_ylabel("evidence of a change", fontsize=9, color=INK)
    panel.yaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda power, _: odds_text(power)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{place:,.0f}"))
    plain(panel, "top", "right")
    return figure


def _words(panel: Axes, threshold: float, alarmed_at: int | None) -> None:
    """The alarm's line in words, above it and on the side where the curve is not yet, or no longer, near."""
    raised = "" if alarmed_at is None else f"; raised at sample {alarmed_at:,}"
    left, right = panel.get_xlim()
    at_end = alarmed_at is not None and alarmed_at < (left + right) / 2
    panel.annotate(
        f"alarm at {odds_text(threshold)} : 1{raised}",
        (0.99 if at_end else 0.01, threshold),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        ha="right" if at_end else "left",
        fontsize=8.5,
        color=INK,
    )
