"""ID rows that a score's scale comes from: neither judged, nor fitted on.

A score of rows that were fitted on lies above that of anything new (KNN finds the row itself), so a scale of
such rows puts everything new at its lower end. A share of the rows to fit on is therefore held back, and
copies of the detectors, fitted on the rest, score it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..core.errors import InputError
from ..data.sampling import sampled_rows
from .chosen_rows import ChosenRows, LabelledRows
from .feature_sets import FIT, FeatureSet
from .scoring import Scorer, Scores
from .views import view_of

# One row of five is held back; rows enough for a mean and a deviation, whatever a score costs.
HELD_BACK = 5
SCALE_ROWS = 2_000
_FEWEST = 20


def apart(rows: FeatureSet, classes: int) -> tuple[ChosenRows, ChosenRows]:
    """Rows to fit on and rows held back, a fifth and at most 2,000, from every class its share."""
    count = min(len(rows) // HELD_BACK, SCALE_ROWS)
    if count < _FEWEST:
        raise InputError(
            f"{len(rows)} rows of {FIT} are too few for a scale: a fifth of them is held back, and "
            f"{_FEWEST} are needed"
        )
    whole = LabelledRows.of(rows, classes, FIT)
    held = torch.zeros(len(whole), dtype=torch.bool)
    held[sampled_rows(whole.labels.tolist(), count)] = True
    numbers = torch.arange(classes) if rows.labelled else None
    return ChosenRows(whole.where(~held), numbers), ChosenRows(whole.where(held), numbers)


def scales_of(scorer: Scorer, labels: Sequence[str]) -> Scores:
    """Scores of ID rows that are neither judged nor fitted on, as of a set `FIT`, and what is refused.

    Scores of other views see such rows of their own.
    """
    result, subject = Scores(), scorer.subject
    own = [spec for spec in scorer.own if spec.label in labels]
    if own:
        try:
            rest, held_back = apart(subject.fit, subject.head.classes)
        except InputError as error:
            result.refused |= {spec.label: str(error) for spec in own}
        else:
            Scorer(subject, own, progress=scorer.progress).of_held_back(rest, held_back, result)
    for view, other in subject.views.items():
        specs = [spec for spec in scorer.specs if view_of(spec) == view and spec.label in labels]
        if specs:
            result.add(scales_of(Scorer(other, specs, progress=scorer.progress), labels))
    return result
