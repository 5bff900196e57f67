"""The samples worth a look: thumbnail, predicted class, score or angle, and the triangle that decided it."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from PIL import Image

from ...benchmarks.telling import TellingSample
from .page import Page
from .triangle import Drawing, degrees, drawing

SIDE = 112


@dataclass(frozen=True)
class SampleView:
    """One sample, its thumbnail as base64 of a PNG and its triangle, if it has them."""

    sample: TellingSample
    thumbnail: str | None
    triangle: Drawing | None

    @property
    def measured(self) -> str:
        """The angle where there is a triangle, else the score."""
        seen = self.sample.triangle
        return f"score {self.sample.score:.4g}" if seen is None else f"θ = {degrees(seen)}°"


@dataclass(frozen=True)
class SampleSection:
    """Samples of one kind, the most telling first."""

    id: str
    title: str
    lead: str
    samples: list[SampleView]


def sample_sections(page: Page) -> list[SampleSection]:
    """ID samples that score lowest, OOD samples that score highest; a kind without samples is left out."""
    chosen, strange = page.result.telling.get(page.subject, ()), set(page.ood_names)
    by = page.shown_first
    sections = [
        SampleSection(
            "suspicious",
            "Most suspicious ID",
            f"In-distribution, and yet {by} scores them lowest.",
            [_view(sample) for sample in chosen if sample.data_set not in strange],
        ),
        SampleSection(
            "deceptive",
            "Most deceptive OOD",
            f"Out-of-distribution, and yet {by} scores them highest.",
            [_view(sample) for sample in chosen if sample.data_set in strange],
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


def _view(sample: TellingSample) -> SampleView:
    png = None if sample.picture is None else thumbnail(sample.picture)
    return SampleView(
        sample,
        None if png is None else base64.b64encode(png).decode("ascii"),
        None if sample.triangle is None else drawing(sample.triangle),
    )
