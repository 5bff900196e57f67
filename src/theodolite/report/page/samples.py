"""The samples worth a look: thumbnail, predicted class, what the score that chose them says, a triangle."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from PIL import Image

from ...benchmarks.telling import DRAWN, TellingSample
from ...guard.calibration import FALSE_ALARM_RATE, flagged
from ..p_values import p_value_text
from .page import Page
from .triangle import Drawing, degrees, drawing

SIDE = 112
# Samples of a section that a small screen shows at once.
FIRST = 4


@dataclass(frozen=True)
class SampleView:
    """One sample, the score ``by`` which it was chosen, a thumbnail as base64 of a PNG, a triangle."""

    sample: TellingSample
    by: str
    thumbnail: str | None
    triangle: Drawing | None

    @property
    def measured(self) -> str:
        """What the score that chose it says: its value, of ORA in degrees."""
        seen = self.sample.triangle
        if self.by == DRAWN and seen is not None:
            return f"{DRAWN} θ = {degrees(seen)}°"
        return f"{self.by} {self.sample.score:.4g}"

    @property
    def angle(self) -> str:
        """What ORA says beside another score that chose it."""
        seen = self.sample.triangle
        return "" if seen is None or self.by == DRAWN else f"{DRAWN} θ = {degrees(seen)}°"

    @property
    def p_value(self) -> str:
        """The p-value in words."""
        p_value = self.sample.p_value
        if p_value is None:
            return ""
        percent = 100 * p_value
        share = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
        does = "flags" if flagged(p_value, FALSE_ALARM_RATE) else "accepts"
        return (
            f"p = {p_value_text(p_value)}: {share} % of ID data score as low, and a guard set to "
            f"{100 * FALSE_ALARM_RATE:g} % false alarms {does} it"
        )

    @property
    def place(self) -> float | None:
        """Where it stands among ID scores, from 0 to 100."""
        return None if self.sample.p_value is None else round(100 * self.sample.p_value, 2)


@dataclass(frozen=True)
class SampleSection:
    """Samples of one kind, the most telling first."""

    id: str
    title: str
    lead: str
    samples: list[SampleView]

    @property
    def first(self) -> list[SampleView]:
        return self.samples[:FIRST]

    @property
    def others(self) -> list[SampleView]:
        return self.samples[FIRST:]


def sample_sections(page: Page) -> list[SampleSection]:
    """ID samples that score lowest, OOD samples that score highest; a kind without samples is left out."""
    chosen, strange = page.result.telling.get(page.subject, ()), set(page.ood_names)
    by = page.shown_first
    sections = [
        SampleSection(
            "suspicious",
            "Most suspicious ID",
            f"In-distribution, and yet {by} scores them lowest.{_said(by)}",
            [_view(sample, by) for sample in chosen if sample.data_set not in strange],
        ),
        SampleSection(
            "deceptive",
            "Most deceptive OOD",
            f"Out-of-distribution, and yet {by} scores them highest.{_said(by)}",
            [_view(sample, by) for sample in chosen if sample.data_set in strange],
        ),
    ]
    return [section for section in sections if section.samples]


def thumbnail(picture: Image.Image, side: int = SIDE) -> bytes:
    """A PNG at most ``side`` pixels wide and high; small pictures keep their size."""
    small = picture.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    if small.mode not in ("L", "RGB"):
        small = small.convert("RGB")
    written = io.BytesIO()
    small.save(written, "PNG", optimize=True)
    return written.getvalue()


def _said(by: str) -> str:
    return "" if by == DRAWN else f" The triangle is {DRAWN}'s, which had no part in the choice."


def _view(sample: TellingSample, by: str) -> SampleView:
    png = None if sample.picture is None else thumbnail(sample.picture)
    return SampleView(
        sample,
        by,
        None if png is None else base64.b64encode(png).decode("ascii"),
        None if sample.triangle is None else drawing(sample.triangle),
    )
