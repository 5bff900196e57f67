"""A contact sheet: pictures in rows, each with its class, its score and its verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL.Image import Image, Resampling

from .figures import ID_COLOUR, INK, OOD_COLOUR, QUIET
from .figures.style import literal
from .p_values import p_value_text

_COLUMNS = 6
# Inches, and the margin as a share of the width.
_CELL_WIDTH, _CELL_HEIGHT = 2.0, 2.62
_TOP, _BOTTOM = 0.6, 0.35
_MARGIN = 0.015
_SIDE = 320
_LETTERS = 24


@dataclass(frozen=True)
class Judged:
    """A picture and what was said about it."""

    picture: Image
    title: str
    class_name: str
    score: str
    p_value: float
    is_ood: bool


def contact_sheet(
    judged: Sequence[Judged], *, title: str, caption: str = "", columns: int = _COLUMNS
) -> Figure:
    """All pictures, in the order given; blue is in-distribution, orange is out-of-distribution."""
    rows = -(-len(judged) // columns)
    height = rows * _CELL_HEIGHT + _TOP + _BOTTOM
    figure = Figure(figsize=(columns * _CELL_WIDTH + 0.2, height))
    figure.text(_MARGIN, 1 - 0.5 * _TOP / height, title, fontsize=13, color=INK, va="center", weight="bold")
    figure.text(_MARGIN, 0.5 * _BOTTOM / height, caption, fontsize=8.5, color=QUIET, va="center")
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(
        left=_MARGIN,
        right=1 - _MARGIN,
        bottom=_BOTTOM / height,
        top=1 - _TOP / height,
        wspace=0.1,
        hspace=0,
    )
    for panel, entry in zip(grid.flat, judged, strict=False):
        _draw(panel, entry)
    for panel in grid.flat[len(judged) :]:
        panel.set_axis_off()
    return figure


def save_sheet(figure: Figure, path: Path) -> Path:
    """Write a sheet as PNG: photographs do not belong in an SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    literal(figure)
    figure.savefig(path, dpi=130, facecolor="white")
    return path


def _draw(panel: Axes, entry: Judged) -> None:
    colour = OOD_COLOUR if entry.is_ood else ID_COLOUR
    panel.imshow(_square(entry.picture))
    panel.set_xticks([])
    panel.set_yticks([])
    panel.set_anchor("N")
    for spine in panel.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(3.5)
    verdict = "OOD" if entry.is_ood else "ID"
    panel.text(
        0.035,
        0.955,
        verdict,
        transform=panel.transAxes,
        fontsize=9,
        weight="bold",
        color="white",
        va="top",
        bbox={"facecolor": colour, "edgecolor": "none", "boxstyle": "round,pad=0.3"},
    )
    name = textwrap.shorten(entry.class_name, _LETTERS, placeholder="…")
    lines = (
        (name, 10.5, INK, "bold"),
        (f"{entry.score}   p = {p_value_text(entry.p_value)}", 9, INK, "normal"),
        (entry.title, 8, QUIET, "normal"),
    )
    offset = -5.0
    for text, size, ink, weight in lines:
        panel.annotate(
            text,
            (0, 0),
            xytext=(0, offset),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=size,
            color=ink,
            weight=weight,
            va="top",
        )
        offset -= size + 4


def _square(picture: Image) -> Image:
    """The middle of a picture, small enough for the sheet."""
    side = min(picture.size)
    left, top = ((length - side) // 2 for length in picture.size)
    middle = picture.convert("RGB").crop((left, top, left + side, top + side))
    return middle.resize((_SIDE, _SIDE), Resampling.LANCZOS)
