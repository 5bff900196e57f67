"""Sample cards: thumbnail, predicted class, angle, and the triangle as a small inline SVG."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape

from .data import SampleCard

_WIDTH, _HEIGHT, _EDGE = 120.0, 96.0, 13.0


def sample_grid(cards: Sequence[SampleCard]) -> str:
    return f'<ul class="cards">{"".join(_card(card) for card in cards)}</ul>'


def _card(card: SampleCard) -> str:
    image = ""
    if card.image_png is not None:
        source = base64.b64encode(card.image_png).decode("ascii")
        image = f'<img src="data:image/png;base64,{source}" alt="{escape(card.data_set)}: {escape(card.id)}">'
    # What was read wrongly is marked in words as well as in colour.
    truth = ""
    if card.truth is not None:
        verdict = "right" if card.truth == card.predicted else "wrong"
        truth = f'<span class="{verdict}">is {escape(card.truth)}</span>'
    angle = "" if card.angle is None else f"<span>θ = {math.degrees(card.angle):.1f}°</span>"
    score = "" if card.angle is not None else f"<span>score {card.score:.4g}</span>"
    return (
        f'<li class="card"><div class="views">{image}{triangle_svg(card)}</div>'
        f'<p class="said">read as <strong>{escape(card.predicted)}</strong> {truth}</p>'
        f'<p class="facts">{angle}{score}<span>{escape(card.data_set)}</span>'
        f'<span class="id">{escape(card.id)}</span></p></li>'
    )


def triangle_svg(card: SampleCard) -> str:
    """Centre μ, feature z and its projection on the boundary, drawn to scale; nothing without the sides."""
    sides = (card.angle, card.distance, card.centre_distance, card.height)
    if any(side is None or not math.isfinite(side) for side in sides):
        return ""
    angle, distance, centre_distance, height = (float(side or 0.0) for side in sides)
    # Boundary upright, the predicted class to its left, as in the figure of the triangle.
    points = [(0.0, 0.0), (centre_distance - distance, height), (centre_distance, height)]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    scale = min(
        (_WIDTH - 2 * _EDGE) / max(right - left, 1e-12), (_HEIGHT - 2 * _EDGE) / max(height, 1e-12), 1e9
    )
    shift = (_WIDTH - scale * (right - left)) / 2 - scale * left
    drop = (_HEIGHT + scale * height) / 2
    (cx, cy), (zx, zy), (px, py) = ((shift + scale * x, drop - scale * y) for x, y in points)
    aside = cx + (7 if cx >= px else -7)
    return (
        f'<svg class="triangle" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-label="triangle of centre, feature and boundary, angle {math.degrees(angle):.1f} degrees">'
        f'<line class="boundary" x1="{px:.1f}" y1="0" x2="{px:.1f}" y2="{_HEIGHT:g}"/>'
        f'<path class="side" d="M{zx:.1f} {zy:.1f}L{cx:.1f} {cy:.1f}L{px:.1f} {py:.1f}"/>'
        f'<path class="drop" d="M{zx:.1f} {zy:.1f}L{px:.1f} {py:.1f}"/>'
        f'<path class="angle" d="{_arc((cx, cy), (zx, zy), (px, py))}"/>'
        f'<circle class="feature" cx="{zx:.1f}" cy="{zy:.1f}" r="3.2"/>'
        f'<circle class="dot" cx="{px:.1f}" cy="{py:.1f}" r="2.4"/>'
        f'<circle class="dot" cx="{cx:.1f}" cy="{cy:.1f}" r="2.4"/>'
        f'<text x="{aside:.1f}" y="{cy + 9:.1f}">μ</text>'
        f'<text x="{zx:.1f}" y="{zy - 5.5:.1f}">z</text></svg>'
    )


def _arc(centre: tuple[float, float], feature: tuple[float, float], projection: tuple[float, float]) -> str:
    """From the feature's direction to the projection's, clockwise on the screen, at a third of the way."""
    ends = []
    lengths = [math.dist(centre, point) for point in (feature, projection)]
    radius = max(min(0.4 * min(lengths), 22.0), 0.1)
    for point, length in zip((feature, projection), lengths, strict=True):
        share = radius / max(length, 1e-9)
        ends.append(tuple(c + share * (p - c) for c, p in zip(centre, point, strict=True)))
    (ax, ay), (bx, by) = ends
    return f"M{ax:.1f} {ay:.1f}A{radius:.1f} {radius:.1f} 0 0 1 {bx:.1f} {by:.1f}"
