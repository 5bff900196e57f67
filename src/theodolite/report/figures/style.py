"""What all figures share: colours, fixed margins, plain axes, and the way to disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from ...core.files import replacing

ID_COLOUR, OOD_COLOUR, INK, QUIET = "#2f6fb0", "#d9822b", "#222222", "#8a8a8a"
# Told apart by people who see red and green alike; with the dashes also in grey print.
LINES = ("#2f6fb0", "#d9822b", "#2a8f6d", "#b0457b", "#6a5acd", "#7a6a4f")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 3)))


def save(
    figure: Figure, stem: Path, *, suffixes: Sequence[str] = (".png", ".svg"), dpi: int = 160
) -> list[Path]:
    """Write a figure as PNG and SVG beside each other; returns the paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    # Not with_suffix: a stem such as "vit-b16.in21k" has a dot of its own.
    paths = [stem.with_name(stem.name + suffix) for suffix in suffixes]
    literal(figure)
    for path in paths:
        with replacing(path) as partial:
            figure.savefig(partial, dpi=dpi, facecolor="white", format=path.suffix.removeprefix("."))
    return paths


def literal(figure: Figure) -> None:
    """Draw every text as it is: a dollar sign in the name of a data set begins no formula."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)


def panels(
    rows: int,
    columns: int,
    *,
    size: tuple[float, float],
    gap: tuple[float, float],
    margin: tuple[float, float, float, float],
    title: str,
    **options: Any,
) -> tuple[Figure, list[list[Axes]]]:
    """A grid of panels; lengths in inches: size and gap (width, height), margin (left, right, bottom, top).

    Fixed margins, because the search for the best ones takes longer than everything else on a large grid.
    """
    left, right, bottom, top = margin
    width = left + columns * size[0] + (columns - 1) * gap[0] + right
    height = bottom + rows * size[1] + (rows - 1) * gap[1] + top
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        bottom=bottom / height,
        top=1 - top / height,
        wspace=gap[0] / size[0],
        hspace=gap[1] / size[1],
    )
    figure.suptitle(title, x=left / width, y=1 - 0.14 / height, ha="left", va="top", fontsize=11, color=INK)
    return figure, [list(row) for row in grid]


def plain(panel: Axes, *hidden: str) -> None:
    """Take away the frame's named sides, and quieten what is left."""
    for side in hidden:
        panel.spines[side].set_visible(False)
    for spine in panel.spines.values():
        spine.set_color(QUIET)
    panel.tick_params(labelsize=8, color=QUIET, labelcolor=INK)
