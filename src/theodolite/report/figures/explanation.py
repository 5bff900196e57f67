"""One sample's explanation as a figure: picture, triangle, predictions, calibration scores, nearest samples.

Everything is laid out in inches: what a guard does not know leaves no hole, its panel is not there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL.Image import Image, Resampling

from ...data.sample import read_image
from ...guard import Explanation
from ...guard.explanation import MAHALANOBIS, Geometry, Neighbours, Prediction
from ...guard.verdicts import ID, OOD, UNSCORABLE
from ..p_values import p_value_text
from .explained_panels import draw_scores, draw_triangle, named, readable
from .style import ID_COLOUR, INK, OOD_COLOUR, QUIET

# Inches.
_EDGE, _GAP = 0.35, 0.5
_HEADER, _LINE = 1.12, 0.2
_ROW, _LOW_ROW, _TITLE = 3.9, 2.5, 0.34
_SCORES, _AXIS = 2.4, 0.42
_PICTURE, _TRIANGLE, _COLUMN = 3.3, 3.7, 3.5
_LEAST = 7.0
_BAR, _SMALL = 0.36, 0.16
_THUMB, _STRIP = 1.25, 2.2
# Letters an inch of small print holds.
_LETTERS_AN_INCH = 15.5
_SIDE = 480
# Where the title begins after the badge of a verdict.
_BADGES = {ID: 0.55, OOD: 0.76, UNSCORABLE: 1.42}


@dataclass(frozen=True)
class _Canvas:
    """A figure whose axes are placed by inches from its top left corner."""

    figure: Figure
    width: float
    height: float

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        bottom = self.height - top - height
        return self.figure.add_axes(
            (left / self.width, bottom / self.height, width / self.width, height / self.height)
        )

    def text(self, left: float, top: float, text: str, **style: object) -> None:
        options = {"va": "top", "ha": "left", "color": INK, "fontsize": 9, **style}
        self.figure.text(left / self.width, 1 - top / self.height, text, **options)  # type: ignore[arg-type]

    def title(self, left: float, top: float, text: str) -> None:
        self.text(left, top, text, fontsize=10, weight="bold")


Draw: TypeAlias = Callable[[_Canvas, float], None]


def explanation_figure(explanation: Explanation, picture: Image | None = None) -> Figure:
    """All that an explanation tells; ``picture`` is the sample's, by default the file that it names."""
    told = explanation
    if picture is None and told.picture is not None:
        picture = opened(told.picture)
    geometry, shown = told.geometry, picture
    drawn = geometry is not None and geometry.triangle is not None
    row = _ROW if drawn or picture is not None else _LOW_ROW
    columns: list[tuple[float, Draw]] = []
    if shown is not None:
        columns.append((_PICTURE, lambda canvas, left: _picture(canvas, left, shown, told)))
    if drawn and geometry is not None:
        columns.append((_TRIANGLE, lambda canvas, left: _triangle(canvas, left, geometry, told)))
    if drawn or not told.predictions:
        columns.append((_COLUMN, lambda canvas, left: _numbers(canvas, left, told, row)))
    else:
        columns.append((_COLUMN, lambda canvas, left: _predictions(canvas, left, told)))
        columns.append((_COLUMN, lambda canvas, left: _beside(canvas, left, told, row)))
    inner = max(sum(width for width, _ in columns) + _GAP * (len(columns) - 1), _LEAST)
    notes = [line for note in told.notes for line in _wrapped(f"· {note}", inner)]
    strip = 0.0 if told.neighbours is None else _strip_height(told.neighbours)
    below = _HEADER + _TITLE + row + 0.25
    height = below + strip + _SMALL * len(notes) + _EDGE
    canvas = _Canvas(Figure(figsize=(inner + 2 * _EDGE, height)), inner + 2 * _EDGE, height)
    _header(canvas, told)
    left = _EDGE
    for width, draw in columns:
        draw(canvas, left)
        left += width + _GAP
    if told.neighbours is not None:
        _neighbours(canvas, below, told.neighbours)
    for place, line in enumerate(notes):
        canvas.text(_EDGE, below + strip + _SMALL * place, line, fontsize=8, color=QUIET)
    return canvas.figure


def opened(path: str) -> Image | None:
    """The picture of a file, if it can still be read."""
    try:
        return read_image(Path(path))
    except OSError:
        return None


def verdict_colour(told: Explanation) -> str:
    return {ID: ID_COLOUR, OOD: OOD_COLOUR}.get(told.verdict, QUIET)


def _header(canvas: _Canvas, told: Explanation) -> None:
    badge = {"facecolor": verdict_colour(told), "edgecolor": "none", "boxstyle": "round,pad=0.35"}
    style = {"weight": "bold", "va": "center"}
    canvas.text(_EDGE + 0.06, 0.38, told.verdict, fontsize=13, color="white", bbox=badge, **style)
    shift = _BADGES[told.verdict]
    room = int((canvas.width - _EDGE - shift) * 8)
    if told.predictions:
        title = f"seen as {named(told.predictions[0].name)}"
    else:
        title = "nothing is known of it" if told.score is None else "judged by its features alone"
    canvas.text(_EDGE + shift, 0.38, readable(title, room), fontsize=14, **style)
    words = told.in_words[:1].upper() + told.in_words[1:]
    if told.p_value is not None:
        words += f" (p = {p_value_text(told.p_value)}; flagged at {told.false_alarm_rate:g} or less)"
    canvas.text(_EDGE, 0.65, words, fontsize=10.5)
    name = told.name if len(told.name) < 110 else f"…{told.name[-109:]}"
    canvas.text(_EDGE, 0.88, readable(name, 110), fontsize=8, color=QUIET)


def _picture(canvas: _Canvas, left: float, picture: Image, told: Explanation) -> None:
    small = picture.convert("RGB")
    small.thumbnail((_SIDE, _SIDE), Resampling.LANCZOS)
    tall = min(_ROW, _PICTURE * small.height / small.width)
    wide = tall * small.width / small.height
    panel = canvas.axes(left, _HEADER + _TITLE, wide, tall)
    panel.imshow(small, aspect="auto")
    _framed(panel, verdict_colour(told), 3)
    canvas.title(left, _HEADER, "The picture")


def _framed(panel: Axes, colour: str, width: float) -> None:
    panel.set_xticks([])
    panel.set_yticks([])
    for spine in panel.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(width)


def _triangle(canvas: _Canvas, left: float, geometry: Geometry, told: Explanation) -> None:
    """The triangle, and below it the nearest and the furthest boundary."""
    canvas.title(left, _HEADER, "The widest triangle, to scale")
    tall = _ROW - 4 * _LINE
    panel = canvas.axes(left, _HEADER + _TITLE, _TRIANGLE, tall)
    draw_triangle(panel, geometry, verdict_colour(told), (_TRIANGLE, tall))
    _boundaries(canvas, left, _HEADER + _TITLE + tall + 0.5 * _LINE, geometry, _TRIANGLE)


def _boundaries(canvas: _Canvas, left: float, top: float, geometry: Geometry, width: float) -> None:
    pairs = (("nearest", geometry.nearest), ("furthest", geometry.furthest))
    for place, (word, boundary) in enumerate(pairs):
        angle = "" if boundary.angle is None else f", {boundary.angle:.1f}°"
        row = top + place * _LINE
        canvas.text(left, row, f"{word} boundary", fontsize=8.5, color=QUIET)
        said = f"{boundary.distance:#.3g}{angle}"
        room = int((width - 1.25) * 14) - len(said)
        canvas.text(left + 1.25, row, readable(named(boundary.name), room), fontsize=8.5)
        canvas.text(left + width, row, said, fontsize=8.5, ha="right")
    unit = "deviations of ID features" if geometry.metric == MAHALANOBIS else "units of the features"
    said = f"distances in {unit}" + ("" if geometry.centre is None else f"; μ is {geometry.centre}")
    canvas.text(left, top + 2 * _LINE, readable(said, 76), fontsize=7.5, color=QUIET)


def _numbers(canvas: _Canvas, left: float, told: Explanation, row: float) -> None:
    """The largest predictions, and below them the score among the calibration scores."""
    below = _HEADER
    if told.predictions:
        _predictions(canvas, left, told)
        below += _TITLE + _BAR * len(told.predictions) + 0.15
    _scores(canvas, left, below, told, _HEADER + _TITLE + row - below)


def _beside(canvas: _Canvas, left: float, told: Explanation, row: float) -> None:
    """Boundaries without a triangle, and below them the score among the calibration scores."""
    below = _HEADER
    if told.geometry is not None:
        canvas.title(left, _HEADER, f"The boundaries of {readable(named(told.geometry.name), 24)}")
        _boundaries(canvas, left, _HEADER + _TITLE, told.geometry, _COLUMN)
        below += _TITLE + 3 * _LINE + 0.15
    _scores(canvas, left, below, told, _HEADER + _TITLE + row - below)


def _scores(canvas: _Canvas, left: float, top: float, told: Explanation, tall: float) -> None:
    which = "The scores of" if told.score is None else "Its score among"
    canvas.title(left, top, f"{which} {told.calibration.count:,} familiar ones")
    panel = canvas.axes(left, top + _TITLE, _COLUMN, min(tall - _TITLE - _AXIS, _SCORES))
    draw_scores(panel, told, verdict_colour(told))


def _predictions(canvas: _Canvas, left: float, told: Explanation) -> None:
    canvas.title(left, _HEADER, "What the classifier sees")
    for place, one in enumerate(told.predictions):
        _prediction(canvas, left, _HEADER + _TITLE + _BAR * place, one, verdict_colour(told))


def _prediction(canvas: _Canvas, left: float, top: float, one: Prediction, colour: str) -> None:
    said = f"{100 * one.probability:.1f} %   logit {one.logit:.2f}"
    canvas.text(left, top, readable(named(one.name), 31), fontsize=8.5)
    canvas.text(left + _COLUMN, top, said, fontsize=8.5, ha="right")
    panel = canvas.axes(left, top + 0.17, _COLUMN, 0.07)
    panel.barh(0, 1, color=QUIET, alpha=0.15, height=1)
    panel.barh(0, one.probability, color=colour, height=1)
    panel.set_xlim(0, 1)
    panel.set_axis_off()


def _strip_height(near: Neighbours) -> float:
    return _STRIP if any(one.picture for one in near.samples) else 0.65 + _LINE * -(-len(near.samples) // 3)


def _neighbours(canvas: _Canvas, top: float, near: Neighbours) -> None:
    title = f"The nearest of {near.of}"
    room = int((canvas.width - 2 * _EDGE) * 11)
    canvas.title(_EDGE, top, readable(title, room))
    canvas.text(_EDGE, top + 0.2, near.measure, fontsize=7.5, color=QUIET)
    inner, drawn = canvas.width - 2 * _EDGE, any(one.picture for one in near.samples)
    step = min(1.6, inner / max(1, len(near.samples))) if drawn else inner / 3
    for place, one in enumerate(near.samples):
        if not drawn:
            row, column = divmod(place, 3)
            line = f"{place + 1}.  {readable(one.name, int(step * 9))}   {one.value:#.3g}"
            canvas.text(_EDGE + column * step, top + 0.45 + row * _LINE, line, fontsize=8.5)
            continue
        left, picture = _EDGE + place * step, None if one.picture is None else opened(one.picture)
        side = min(_THUMB, step - 0.15)
        panel = canvas.axes(left, top + 0.45, side, side)
        _framed(panel, QUIET, 0.8)
        if picture is None:
            panel.text(0.5, 0.5, "no picture", ha="center", va="center", fontsize=8, color=QUIET)
        else:
            small = picture.convert("RGB")
            small.thumbnail((_SIDE // 2, _SIDE // 2), Resampling.LANCZOS)
            panel.imshow(small)
            panel.set_anchor("NW")
        short = readable(Path(one.name).name, int(side * 14))
        canvas.text(left, top + 0.45 + side + 0.06, f"{one.value:#.3g}", fontsize=8.5)
        canvas.text(left, top + 0.45 + side + 0.22, short, fontsize=7.5, color=QUIET)


def _wrapped(text: str, inches: float) -> list[str]:
    return textwrap.wrap(text, max(20, int(inches * _LETTERS_AN_INCH)), subsequent_indent="  ")
