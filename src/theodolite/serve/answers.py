"""Answers as JSON: one entry a sample, in the order they were sent; numbers that are none are null."""

from __future__ import annotations

import math

from pydantic import BaseModel, Field

from ..guard.calibration import flagged
from ..guard.explanation import p_value_in_words
from ..guard.verdicts import ID, NO_CLASS, OOD, UNREADABLE, UNSCORABLE
from .judging import Judged, Judging
from .triangle import Sides


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


class State(BaseModel):
    """How the service is."""

    status: str


class Triangle(BaseModel):
    """The centre μ of the ID features, the feature z, and its projection on the furthest boundary.

    Seen from μ, z stands at (distance − centre_distance, height), the other at (−centre_distance, height).
    """

    across: int = Field(description="The class on the other side of the boundary.")
    across_name: str
    angle: float = Field(description="At μ, between z and its projection, in radians.")
    distance: float = Field(description="Of z to the boundary.")
    centre_distance: float = Field(description="Of μ to the boundary; negative on its other side.")
    height: float = Field(description="Of z above μ, along the boundary.")


class Entry(BaseModel):
    """The verdict on one sample."""

    index: int = Field(description="Its place in the request, from 0.")
    name: str | None = Field(description="The name of its file, as the client gave it.")
    verdict: str = Field(
        description="ID or OOD. One that is `unreadable` (no picture) or `unscorable` (NaN or infinity in "
        "its features) has no other verdict and must not be trusted.",
        json_schema_extra={"enum": [ID, OOD, UNREADABLE, UNSCORABLE]},
    )
    predicted: int | None = Field(description="The class that the classifier sees, by number.")
    class_name: str | None = Field(description="The same in words, or the number where it has no name.")
    score: float | None = Field(description="Higher is more in-distribution.")
    p_value: float | None = Field(description="Share of calibration samples that look at least as strange.")
    in_words: str | None = Field(description="The p-value in words.")
    note: str | None = Field(description="Why it is unreadable, or how else it was read than it may seem.")
    triangle: Triangle | None = Field(
        default=None, description="Where `explain` was asked for and there is one."
    )


class Answer(BaseModel):
    """Verdicts on all samples of a request, in its order."""

    false_alarm_rate: float
    results: list[Entry]


class Drift(BaseModel):
    """Whether the samples so far are like the calibration data."""

    kind: str
    seen: int = Field(description="Samples that were judged, since the state began.")
    evidence: float | None = Field(description="That they are not, as a power of ten; null before the first.")
    threshold: float = Field(description="The evidence at which an alarm is raised.")
    alarmed_at: int | None = Field(description="The sample that raised it, from 1 on.")


class About(BaseModel):
    """What is served."""

    title: str
    version: str
    features: int = Field(description="The width of the features it judges.")
    takes_pictures: bool
    false_alarm_rate: float
    calibration: int = Field(description="How many calibration scores it has, of all classes.")
    pictures: int = Field(description="Most pictures in one request.")
    request_bytes: int = Field(description="Most bytes in one request.")
    drift: Drift | None = Field(description="What the monitor says; null without one.")


class Writer:
    """Writes entries at one request's false-alarm rate; ``of`` are pictures or samples."""

    def __init__(self, false_alarm_rate: float, judging: Judging, of: str) -> None:
        self._rate = false_alarm_rate
        self._class_name = judging.class_name
        self._calibration = judging.calibration
        self._of = of
        self._counts: dict[int, int] = {}

    def entry(self, index: int, name: str | None, judged: Judged, note: str | None = None) -> Entry:
        if math.isnan(judged.p_value):
            return _without(index, name, UNSCORABLE, note)
        known = judged.predicted != NO_CLASS
        return Entry(
            index=index,
            name=name,
            verdict=OOD if flagged(judged.p_value, self._rate) else ID,
            predicted=judged.predicted if known else None,
            class_name=self._class_name(judged.predicted) if known else None,
            score=judged.score if math.isfinite(judged.score) else None,
            p_value=judged.p_value,
            in_words=p_value_in_words(judged.p_value, self._count(judged.predicted), self._of),
            note=note,
            triangle=None if judged.sides is None else self._triangle(judged.sides),
        )

    def _count(self, predicted: int) -> int:
        """With how many calibration scores a sample of this class is compared."""
        if predicted not in self._counts:
            self._counts[predicted] = len(self._calibration.peers(predicted))
        return self._counts[predicted]

    def _triangle(self, sides: Sides) -> Triangle:
        return Triangle(across_name=self._class_name(sides.across), **sides._asdict())


def unreadable(index: int, name: str | None, reason: str) -> Entry:
    """A picture that could not be read: it has an entry, and no verdict but that."""
    return _without(index, name, UNREADABLE, reason)


def _without(index: int, name: str | None, verdict: str, note: str | None) -> Entry:
    return Entry(
        index=index,
        name=name,
        verdict=verdict,
        predicted=None,
        class_name=None,
        score=None,
        p_value=None,
        in_words=None,
        note=note,
    )
