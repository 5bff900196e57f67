"""What a report is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ...evaluation.evaluation import Evaluation


@dataclass(frozen=True, kw_only=True)
class SampleCard:
    """One sample worth a look: a thumbnail and, where an ORA saw it, the triangle that decided its score."""

    id: str
    score: float
    predicted: str
    data_set: str
    image_png: bytes | None = None
    truth: str | None = None
    angle: float | None = None
    distance: float | None = None
    centre_distance: float | None = None
    height: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """One run.

    published: percentages as printed, by (detector, OOD set or "average", metric), where detector and OOD
        set are the names that the evaluation uses; may be empty. Those in ``doubtful`` are marked with †.
    intervals: bootstrap intervals in per cent, by the same keys; may be empty.
    highlight: the detector that the page shows first, and that chose the sample cards; None is the first.
    digits: decimals of every printed percentage.
    """

    title: str
    evaluation: Evaluation
    id_name: str
    summary: Sequence[str] = ()
    accuracy: float | None = None
    published: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    doubtful: Collection[tuple[str, str, str]] = ()
    intervals: Mapping[tuple[str, str, str], tuple[float, float]] = field(default_factory=dict)
    suspicious_id: Sequence[SampleCard] = ()
    deceptive_ood: Sequence[SampleCard] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    highlight: str | None = None
    digits: int = 2

    @property
    def shown_first(self) -> str:
        names = list(self.evaluation.metrics)
        return self.highlight if self.highlight in names else names[0]

    def percent(self, share: float) -> str:
        """A share in [0, 1] as it is printed everywhere on the page."""
        # Rounded as in the results first, so that a tie such as 14.855 falls to the same side everywhere.
        return f"{round(100 * share, 6):.{self.digits}f}"
