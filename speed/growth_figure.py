"""The figure of growth: time and memory against N, D and C, the fitted exponents at the lines' ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from theodolite.report.figures.style import DASHES, INK, LINES, QUIET, panels, plain, save

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
AXES = {"N": "rows N", "D": "width D", "C": "classes C"}
ROWS = {"scoring": "scoring, seconds", "fitting": "fitting, seconds", "memory": "scoring, extra MiB"}
TITLE = "Growth on logarithmic axes; beside each line its exponent, fitted where the line is bold"
APART = 0.085  # of a panel's height, between two exponents

Look = tuple[str, Any]  # colour, dashes
Key = tuple[str, str, str]  # kind, axis, score


def draw(
    curves: Mapping[Key, Sequence[float]],
    exponents: Mapping[Key, float],
    grids: Mapping[str, Sequence[int]],
    upper: Mapping[str, int],
    titles: Mapping[str, str],
) -> None:
    """A row of panels a kind of measurement, a column an axis; a line a score, bold where it was fitted."""
    figure, grid = panels(
        len(ROWS),
        len(grids),
        size=(2.5, 2.1),
        gap=(0.6, 0.35),
        margin=(0.75, 0.55, 0.95, 0.55),
        title=TITLE,
        sharey="row",
        sharex="col",
    )
    looks: dict[str, Look] = {name: (LINES[place], DASHES[place]) for place, name in enumerate(titles)}
    for row, (kind, label) in zip(grid, ROWS.items(), strict=True):
        for panel, (axis, sizes) in zip(row, grids.items(), strict=True):
            scales(panel, sizes)
            for name, look in looks.items():
                if (kind, axis, name) in curves:
                    line(panel, sizes, curves[kind, axis, name], upper[axis], look)
        row[0].set_ylabel(label, fontsize=9, color=INK)
        for panel, axis in zip(row, grids, strict=True):  # once the scale that they share is known
            ends = {
                look[0]: (curves[kind, axis, name][-1], exponents[kind, axis, name])
                for name, look in looks.items()
                if (kind, axis, name) in curves
            }
            beside(panel, ends)
    for panel, axis in zip(grid[-1], grids, strict=True):
        panel.set_xlabel(AXES[axis], fontsize=9, color=INK)
    legend(figure, {titles[name]: look for name, look in looks.items()})
    save(figure, IMAGE.with_suffix(""), suffixes=(IMAGE.suffix,))


def scales(panel: Axes, sizes: Sequence[int]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks([sizes[0], sizes[len(sizes) // 2], sizes[-1]])
    panel.yaxis.set_major_locator(LogLocator(numticks=6))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.grid(True, color=QUIET, alpha=0.2, linewidth=0.6)
    plain(panel, "top", "right")


def line(panel: Axes, sizes: Sequence[int], values: Sequence[float], begin: int, look: Look) -> None:
    colour, dashes = look
    first = next(place for place, size in enumerate(sizes) if size >= begin)
    before, from_there = slice(first + 1), slice(first, None)
    panel.plot(sizes[before], values[before], color=colour, linestyle=dashes, linewidth=0.8, alpha=0.7)
    panel.plot(sizes[from_there], values[from_there], color=colour, linestyle=dashes, linewidth=1.8)
    panel.plot(sizes, values, ".", color=colour, markersize=3)


def beside(panel: Axes, ends: Mapping[str, tuple[float, float]]) -> None:
    """The exponents beside the lines' ends, moved apart where they would touch."""
    to_panel = panel.transData + panel.transAxes.inverted()
    right = panel.get_xlim()[1]
    wanted = sorted(
        (to_panel.transform((right, end))[1], colour, slope) for colour, (end, slope) in ends.items()
    )
    heights = np.array([height for height, _, _ in wanted])
    for _ in range(200):
        for low in range(len(heights) - 1):
            short = APART - (heights[low + 1] - heights[low])
            if short > 0:
                heights[low : low + 2] += (-short / 2, short / 2)
    for height, (_, colour, slope) in zip(heights, wanted, strict=True):
        panel.text(
            1.02, height, shown(slope), transform=panel.transAxes, va="center", fontsize=8, color=colour
        )


def shown(exponent: float) -> str:
    return f"{exponent:z.2f}".replace("-", "−")


def legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    handles = [
        Line2D([], [], color=colour, linestyle=dashes, linewidth=1.8, label=title)
        for title, (colour, dashes) in looks.items()
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=9, handlelength=3
    )
