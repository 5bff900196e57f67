"""How every score of a run differs from one of them, on the same samples of one model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..evaluation import Difference, Evaluation, holm, paired_differences
from .feature_sets import AVERAGE, TEST

_DIGITS = 6
# The level at which people call a difference one.
_BOUND = 0.05


@dataclass(frozen=True)
class PairedCell:
    """A metric of a score minus that of the score it is held against, in percentage points.

    ``p_value`` is of this comparison alone; ``p_holm`` is corrected for the family of all scores that are
    held against the same one on the same model, OOD set and metric. The interval is not corrected.
    """

    subject: str
    detector: str
    ood: str
    metric: str
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float


@dataclass(frozen=True)
class PairedTests:
    """All differences of a run from the score ``against``, and how they were drawn."""

    against: str
    replicates: int
    level: float
    seed: int
    cells: tuple[PairedCell, ...]

    @property
    def least(self) -> float:
        """The least p-value that so many draws can give."""
        return 2 / (self.replicates + 1)

    @property
    def notes(self) -> list[str]:
        """A word where so few draws were made that nothing could pass the usual bound once corrected."""
        families = Counter((cell.subject, cell.ood, cell.metric) for cell in self.cells)
        compared = max(families.values(), default=0)
        if compared * self.least <= _BOUND:
            return []
        return [
            f"{self.replicates:,} draws are too few for p (Holm): of {compared} comparisons none can come "
            f"below {compared * self.least:.2g}, however large the difference; "
            f"{math.ceil(2 * compared / _BOUND):,} would do (--replicates)."
        ]


@dataclass(frozen=True)
class Pairing:
    """What to hold scores against, by its label, on which metrics, and how to draw."""

    against: str
    metrics: tuple[str, ...]
    replicates: int = 1000
    level: float = 0.95
    seed: int = 0

    def of(self, evaluations: Mapping[str, Evaluation]) -> PairedTests:
        """The tests of every subject that has the score and another; ensembles among them."""
        cells = [
            cell
            for subject, found in evaluations.items()
            if self.against in found.metrics and len(found.metrics) > 1
            for cell in self._of(subject, found)
        ]
        return PairedTests(self.against, self.replicates, self.level, self.seed, tuple(cells))

    def _of(self, subject: str, found: Evaluation) -> list[PairedCell]:
        scores = {
            label: {TEST: values, **found.ood_scores[label]} for label, values in found.id_scores.items()
        }
        apart = paired_differences(
            scores,
            self.against,
            known=TEST,
            metrics=self.metrics,
            level=self.level,
            replicates=self.replicates,
            seed=self.seed,
        )
        cells = []
        for metric in self.metrics:
            for ood in (*found.ood_names, AVERAGE):
                family: dict[str, Difference] = {
                    label: measured[metric].average if ood == AVERAGE else measured[metric].sets[ood]
                    for label, measured in apart.items()
                }
                corrected = holm([one.p_value for one in family.values()])
                cells += [
                    PairedCell(subject, label, ood, metric, *_points(one), one.p_value, p_holm)
                    for (label, one), p_holm in zip(family.items(), corrected, strict=True)
                ]
        return cells


def _points(one: Difference) -> tuple[float, float, float]:
    value, low, high = (round(100 * share, _DIGITS) for share in (one.value, one.low, one.high))
    return value, low, high
