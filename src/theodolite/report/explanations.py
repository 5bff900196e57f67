"""Explanations in words, and as files: JSON for programs, a figure a sample for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from PIL.Image import Image

from ..core.errors import InputError
from ..core.files import write_bytes
from ..core.plain import to_plain
from ..guard import Explanation
from ..guard.explanation import MAHALANOBIS, Geometry
from .figures import explanation_figure, save
from .p_values import p_value_text

FIGURES = (".png", ".svg")
_JSON = ".json"
# Photographs weigh: enough for a screen.
_DPI = 120


def explanation_lines(told: Explanation) -> list[str]:
    """An explanation as text, a fact a line; the verdict first."""
    if told.score is None or told.p_value is None:
        return [f"{told.name}: {told.verdict}", f"  {told.in_words}", *_notes(told)]
    seen = f", seen as {told.predictions[0].name}" if told.predictions else ""
    lines = [
        f"{told.name}: {told.verdict}{seen}",
        f"  {told.in_words} (p = {p_value_text(told.p_value)}; flagged at {told.false_alarm_rate:g} or less)",
        f"  {told.score_title} {told.score:.4g}, threshold {told.threshold:.4g}, "
        f"{told.calibration.count:,} calibration scores",
    ]
    if told.predictions:
        lines.append("  the classifier sees")
        lines += [
            f"    {100 * one.probability:5.1f} %  {one.name} (logit {one.logit:.2f})"
            for one in told.predictions
        ]
    if told.geometry is not None:
        lines += _geometry_lines(told.geometry)
    if told.neighbours is not None:
        lines.append(f"  nearest of {told.neighbours.of}: {told.neighbours.measure}")
        lines += [f"    {one.value:.3f}  {one.name}" for one in told.neighbours.samples]
    return [*lines, *_notes(told)]


def _geometry_lines(geometry: Geometry) -> list[str]:
    unit = "deviations of ID features" if geometry.metric == MAHALANOBIS else "units of the features"
    lines = [f"  the boundaries of {geometry.name}, distances in {unit}"]
    for word, one in (("nearest", geometry.nearest), ("furthest", geometry.furthest)):
        angle = "" if one.angle is None else f", at {one.angle:.2f}°"
        lines.append(f"    {word}: {one.name} at a distance of {one.distance:.4g}{angle}")
    if geometry.triangle is not None:
        lines.append(
            f"  the largest angle seen from {geometry.centre}: {geometry.triangle.angle:.2f}°, to the "
            f"boundary with {geometry.triangle.name}"
        )
    if geometry.id_angles is not None:
        known = geometry.id_angles
        lines.append(
            f"    of {known.count:,} ID samples ({known.of}) nine of ten lie between {known.low:.2f}° and "
            f"{known.high:.2f}°, half below {known.median:.2f}°"
        )
    return lines


def _notes(told: Explanation) -> list[str]:
    return [f"  note: {note}" for note in told.notes]


def require_output(output: Path) -> None:
    """Refuse a file of another kind than can be written, before anything is worked out."""
    if output.suffix.lower() not in (*FIGURES, _JSON):
        raise InputError(
            f"{output}: explanations are written as .png, .svg or .json, not {output.suffix!r}: use one of "
            f"these suffixes"
        )


def write_explanations(
    explanations: Sequence[Explanation], output: str | Path, *, pictures: Sequence[Image | None] | None = None
) -> list[Path]:
    """Write explanations: ``.json`` a list of all, ``.png`` or ``.svg`` a figure each.

    Of several figures ``why.png`` are called ``why-1.png``, ``why-2.png``, …. ``pictures`` are the samples',
    where they are in memory; those that lie in files are opened. Returns what was written.
    """
    place = Path(output)
    require_output(place)
    if not explanations:
        raise InputError("explanations is empty: there is nothing to write")
    if place.suffix.lower() == _JSON:
        text = json.dumps(to_plain(list(explanations)), indent=1, ensure_ascii=False, allow_nan=False)
        # Names of files that are no UTF-8 come back from JSON as Python names them.
        write_bytes(place, (text + "\n").encode("utf-8", "backslashreplace"))
        return [place]
    shown = [None] * len(explanations) if pictures is None else list(pictures)
    if len(shown) != len(explanations):
        raise InputError(f"{len(shown)} pictures for {len(explanations)} explanations: one for each, or None")
    written: list[Path] = []
    for number, (told, picture) in enumerate(zip(explanations, shown, strict=True), start=1):
        stem = place.with_suffix("") if len(shown) == 1 else place.with_name(f"{place.stem}-{number}")
        figure = explanation_figure(told, picture)
        written += save(figure, stem, suffixes=(place.suffix,), dpi=_DPI)
    return written
