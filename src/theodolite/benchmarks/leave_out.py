"""Leave-class-out: ID classes that play OOD, so that scores are compared without any OOD data.

The rule:

- The classes that have held-out rows are ordered by a hash of seed and class and dealt into F folds, whose
  sizes differ by one at most. Every class is left out in one fold.
- In a fold the rows of the left-out classes are taken out of the head: logits, prediction and boundaries are
  those of the remaining classes. Everything is fitted on rows of the remaining classes alone.
- Held-out rows of the remaining classes are judged against held-out rows of the left-out ones. No row that
  was fitted on is judged.

What it cannot undo: the network learnt its features with the left-out classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import InputError
from ..guard.guard import CALIBRATION_SHARE
from ..guard.holdout import in_share
from ..reference.bank import sample_keys
from ..reference.head import Head
from .chosen_rows import ChosenRows, LabelledRows
from .subject import Subject

FOLDS = 5
LEFT_OUT = "left-out classes"
# 95 % of fewer rows are all of them.
FEWEST = 20


@dataclass(frozen=True)
class KnownData:
    """A head, ID rows to fit on and other ID rows to judge; there is no OOD data in it."""

    name: str
    head: Head
    fit: LabelledRows
    held_out: LabelledRows

    @classmethod
    def of(cls, name: str, head: Head, fit: LabelledRows, held_out: LabelledRows | None = None) -> KnownData:
        """Without rows of their own to judge, a share of those to fit on is held out, as a guard does."""
        if held_out is None:
            apart = in_share(fit.ids, CALIBRATION_SHARE)
            fit, held_out = fit.where(~apart), fit.where(apart)
        return cls(name, head, fit, held_out)

    def require_labels(self) -> None:
        """Refuse rows whose classes are not known."""
        for what, rows in (("rows to fit on", self.fit), ("held-out rows", self.held_out)):
            if not rows.rows.labelled:
                raise InputError(f"{self.name}: the {what} have no labels, and only classes can be left out")


def deal_classes(classes: Iterable[int], folds: int, seed: int = 0) -> list[tuple[int, ...]]:
    """The classes that each fold leaves out, in rising order."""
    present = torch.tensor(sorted(set(classes)), dtype=torch.int64)
    if not 2 <= folds <= len(present):
        raise InputError(
            f"folds must be between 2 and the number of classes with held-out rows, {len(present)}; "
            f"got {folds}"
        )
    order = present[sample_keys(present, seed).argsort(stable=True)]
    return [tuple(sorted(order[place::folds].tolist())) for place in range(folds)]


def leave_out(known: KnownData, classes: Iterable[int]) -> Subject:
    """The subject of one fold: ``classes`` are OOD, and nothing of them is in its head or its fit."""
    known.require_labels()
    left_out = torch.zeros(known.head.classes, dtype=torch.bool)
    left_out[list(classes)] = True
    remaining = (~left_out).nonzero().flatten()
    if len(remaining) < 2 or len(known.fit.where(~left_out[known.fit.labels]).classes) < 2:
        raise InputError(
            f"{known.name}: without {int(left_out.sum())} left-out classes fewer than two classes have rows "
            f"to fit on: leave-class-out needs at least three classes, and more folds than two with so few"
        )
    numbers = torch.full((known.head.classes,), -1)
    numbers[remaining] = torch.arange(len(remaining))
    fit = known.fit.where(~left_out[known.fit.labels])
    judged = known.held_out.where(~left_out[known.held_out.labels])
    strange = known.held_out.where(left_out[known.held_out.labels])
    for what, rows in (("the remaining classes have", judged), ("the left-out classes have", strange)):
        if len(rows) < FEWEST:
            raise InputError(
                f"{known.name}: {what} {len(rows)} held-out rows in a fold, expected at least {FEWEST}: "
                f"give more held-out rows, or fewer folds"
            )
    return Subject(
        known.name,
        without_classes(known.head, left_out),
        ChosenRows(fit, numbers),
        ChosenRows(judged, numbers),
        {LEFT_OUT: ChosenRows(strange)},
    )


def without_classes(head: Head, left_out: Tensor) -> Head:
    """The head without the rows of some classes, by a mask (C,)."""
    kept = ~left_out.to(head.weight.device)
    return Head(head.weight[kept], head.bias[kept], unit_features=head.unit_features)
