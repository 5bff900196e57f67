"""How a guard was calibrated, and whether the data it was calibrated on can be new to its classifier.

A classifier is surer of data it has learnt. Scores of such data promise too much, and it shows in how often
its answers are the labels: on k errors in n samples it is said to have learnt them if

    P(Bin(n, 0.02) ≤ k) < 0.01

A classifier that errs on 2 % of new data or more is so accused with a probability below 0.01. One that errs
less cannot be told from one that has learnt the data, and a network may have learnt data without knowing it
by heart: that nothing is said promises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from ..core.arrays import ArrayLike
from ..core.errors import InputError
from ..detectors import Detector
from ..reference.head import Head
from ..reference.reference import Batches, batches
from .by_class import AT_LEAST, ClassCalibration, pool_small
from .calibration import Calibration

_ERRORS = 0.02
_LEVEL = 0.01
_TILE = 1024
_REMEDY = (
    "If it was, new data scores lower, and more of it is flagged than promised: pass data it has not seen as "
    "calibration= (--calibration-data)"
)


@dataclass(frozen=True)
class Calibrated:
    """On how many samples, and whether they are a share of the data to fit on.

    ``right`` of the ``labelled`` ones have the label that the classifier gives them.
    """

    own_share: bool
    samples: int
    labelled: int = 0
    right: int = 0

    @property
    def agreement(self) -> float | None:
        """The share of labels that the classifier gives as well; None without labels."""
        return self.right / self.labelled if self.labelled else None

    @property
    def learnt(self) -> bool:
        """Whether the answers are the labels more often than they could be on new data."""
        return _at_most(self.labelled - self.right, self.labelled) < _LEVEL

    @property
    def doubt(self) -> str | None:
        """Why the promise may be broken, where it may be."""
        if not self.own_share:
            return None
        if not self.labelled:
            return (
                f"the threshold is set on a share of the data to fit on, and without labels nothing shows "
                f"whether the network was trained on it. {_REMEDY}"
            )
        share = f"{100 * self.right / self.labelled:.1f} % of {self.labelled:,} labels"
        said = f"the threshold is set on a share of the data to fit on, of which the classifier gives {share}"
        if self.learnt:
            return (
                f"{said}. One that errs on {100 * _ERRORS:g} % of new data or more would do so with a "
                f"probability below {_LEVEL:g}: most likely it was trained on this data. {_REMEDY}"
            )
        if self.labelled - self.right < _ERRORS * self.labelled:
            return f"{said}: too few to tell whether it was trained on this data. {_REMEDY}"
        return None


def calibrate(
    detector: Detector,
    data: ArrayLike | Batches,
    head: Head | None,
    *,
    own_share: bool,
    per_class: bool | int = False,
) -> tuple[Calibration, Calibrated]:
    """A fitted detector's scores of data it did not see, and what that data was."""
    at_least = _checked_minimum(per_class, head)
    scores, predicted, labelled, right = [], [], 0, 0
    for rows, labels, _ in batches(data, None, None, head):
        answers = []
        for tile in torch.split(rows, _TILE):
            # One product with the head for class and score, as in a verdict; an overflow is not passed on.
            logits = None if head is None else head(tile)
            shared = logits is not None and bool(torch.isfinite(logits.sum()))
            scores.append(detector.score(tile, logits if shared else None).cpu())
            if logits is not None:
                answers.append(logits.argmax(dim=1).cpu())
        predicted += answers
        if labels is not None and answers:
            labelled += len(labels)
            right += int((torch.cat(answers) == labels.cpu()).sum())
    if not scores:
        raise InputError("no sample was held out for calibration: pass more data or calibration=")
    known = Calibrated(own_share, sum(map(len, scores)), labelled, right)
    if at_least is None or head is None:
        return Calibration(torch.cat(scores)), known
    classes = torch.cat(predicted)
    groups = pool_small(torch.bincount(classes, minlength=head.classes), at_least)
    return ClassCalibration(torch.cat(scores), classes, groups), known


def _checked_minimum(per_class: bool | int, head: Head | None) -> int | None:
    """How many scores a class of its own needs; None where all classes share one threshold."""
    asked = isinstance(per_class, bool | np.bool_)
    if not asked and not isinstance(per_class, int | np.integer):
        raise InputError(
            f"per_class must be True, False or a whole number, the fewest calibration scores of a class with "
            f"a threshold of its own, got {per_class!r}"
        )
    if asked and not per_class:
        return None
    if head is None:
        raise InputError("per_class needs a head: without one no class is predicted")
    return AT_LEAST if asked else int(per_class)


def _at_most(errors: int, count: int) -> float:
    """P(Bin(count, 0.02) ≤ errors); 1 where it is not small."""
    if errors >= _ERRORS * count:
        return 1.0
    ways = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(errors + 1)
    )
    logs = (way + k * math.log(_ERRORS) + (count - k) * math.log1p(-_ERRORS) for k, way in enumerate(ways))
    return sum(map(math.exp, logs))
