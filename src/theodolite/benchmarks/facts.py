"""What a result says of its models, its scores and its time: plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.plain import JsonObject, JsonValue, to_plain
from .cells import PublishedValue

# Entries of a subject that are written only where there is something to say.
_RARE = ("published_accuracy", "shifted", "board")


@dataclass(frozen=True)
class SubjectFacts:
    """What a model is, and which features of it were judged.

    ``shifted`` counts the samples of the ID data that are under a shift, by their set (full-spectrum);
    ``board`` names the leaderboard that was measured on the same data.
    """

    backbone: str | None
    classes: int
    width: int
    accuracy: float | None
    samples: Mapping[str, int]
    digests: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)
    published_accuracy: tuple[PublishedValue, ...] = ()
    shifted: Mapping[str, int] = field(default_factory=dict)
    board: str | None = None

    def to_json(self) -> JsonObject:
        """As plain values; what only some protocols have is left out for the others."""
        told = to_plain(self)
        assert isinstance(told, dict)
        return {key: value for key, value in told.items() if key not in _RARE or value}


@dataclass(frozen=True)
class DetectorFacts:
    """What a row of a table is: a score with all its options, or (``formula``) one that is only a formula.

    ``chosen_on`` says what its settings were chosen on, where that is known.
    """

    text: str | None = None
    detector: str | None = None
    options: Mapping[str, JsonValue] | None = None
    shaping: str | None = None
    paper: str | None = None
    formula: str | None = None
    chosen_on: str | None = None

    @property
    def seed(self) -> int | None:
        seed = (self.options or {}).get("seed")
        return seed if isinstance(seed, int) else None

    def to_json(self) -> JsonObject:
        if self.formula is not None:
            return {"formula": self.formula}
        told: JsonObject = {
            "text": self.text,
            "detector": self.detector,
            "options": to_plain(self.options),
            "shaping": self.shaping,
            "paper": self.paper,
        }
        return told if self.chosen_on is None else {**told, "chosen_on": self.chosen_on}


@dataclass(frozen=True)
class Bootstrap:
    """How intervals were made; ``replicates`` 0 means that there are none."""

    replicates: int = 0
    level: float = 0.95


@dataclass(frozen=True)
class Seconds:
    """How long fitting all detectors took, and scoring with each: the work that it alone asked for.

    ``shared`` is the time of scoring work that several detectors asked for, and that was done once. Results
    without it are of a time when each detector did all of its work.
    """

    fit: float
    score: Mapping[str, float]
    shared: float | None = None

    def to_json(self) -> JsonObject:
        told: JsonObject = {"fit": self.fit, "score": to_plain(self.score)}
        return told if self.shared is None else {**told, "shared": self.shared}
