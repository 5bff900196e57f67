"""Candidates ranked on validation data: figures of every fold, and the order they give.

The rule: the lowest FPR95, averaged over the OOD sets of a fold and then over the folds, is first; of equal
ones that with the highest AUROC, averaged alike; of those the one named first. A candidate that refuses the
data of any fold is not ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..core.arrays import FloatArray
from ..core.errors import InputError
from ..detectors.spec import DetectorSpec
from ..evaluation import auroc, fpr_at_tpr
from ..reference.bank import sample_keys
from .chosen_rows import ChosenRows
from .feature_sets import TEST, FeatureSet
from .leave_out import FEWEST, KnownData, deal_classes, leave_out
from .measure import percent, rounded
from .scoring import Scorer
from .subject import Subject


@dataclass(frozen=True, eq=False)
class Trial:
    """A subject that candidates are fitted and judged on.

    ``parts`` are the folds of its held-out ID rows, each of which meets all OOD rows; without them all its
    rows are one fold.
    """

    subject: Subject
    parts: Tensor | None = None

    def cut(self, scores: FloatArray) -> list[FloatArray]:
        """The scores of the held-out ID rows, by fold."""
        if self.parts is None:
            return [scores]
        parts = self.parts.numpy()
        return [scores[parts == part] for part in range(int(parts.max()) + 1)]


@dataclass(frozen=True)
class Ranked:
    """A candidate as text that ``--detector`` takes, with FPR95 and AUROC of every fold, in per cent."""

    spec: str
    label: str
    fpr95: tuple[float, ...]
    auroc: tuple[float, ...]

    @property
    def mean_fpr95(self) -> float:
        return rounded(np.mean(self.fpr95))

    @property
    def mean_auroc(self) -> float:
        return rounded(np.mean(self.auroc))


@dataclass(frozen=True)
class Order:
    """The candidates, the best first; those that are not ranked, each with its reason."""

    ranked: tuple[Ranked, ...]
    refused: Mapping[str, str]


def class_trials(
    known: KnownData, folds: int, seed: int = 0
) -> tuple[list[Trial], tuple[tuple[int, ...], ...]]:
    """A trial for every fold of classes, and the classes that each leaves out."""
    dealt = tuple(deal_classes(known.held_out.classes, folds, seed))
    return [Trial(leave_out(known, classes)) for classes in dealt], dealt


def validation_trial(known: KnownData, ood: Mapping[str, FeatureSet], folds: int, seed: int = 0) -> Trial:
    """One fit, judged against validation OOD sets; each fold has another share of the held-out ID rows."""
    parts = sample_keys(known.held_out.ids, seed) % folds
    if folds < 1 or int(torch.bincount(parts, minlength=folds).min()) < FEWEST:
        raise InputError(
            f"{known.name}: {len(known.held_out)} held-out rows do not make {folds} folds of at least "
            f"{FEWEST} each: give more held-out rows, or fewer folds"
        )
    for name, rows in ood.items():
        if len(rows) < FEWEST:
            raise InputError(f"{name} has {len(rows)} rows, expected at least {FEWEST} of a validation set")
    same = torch.arange(known.head.classes)
    fit, held_out = (
        ChosenRows(rows, same if rows.rows.labelled else None) for rows in (known.fit, known.held_out)
    )
    return Trial(Subject(known.name, known.head, fit, held_out, dict(ood)), parts)


def ranked(
    trials: Sequence[Trial],
    specs: Sequence[DetectorSpec],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Order:
    """Fit and judge every candidate on every trial, and put them in order."""
    refused: dict[str, str] = {}
    figures: dict[str, list[tuple[float, float]]] = {spec.label: [] for spec in specs}
    for done, trial in enumerate(trials):
        progress(done, len(trials))
        found = Scorer(trial.subject, [spec for spec in specs if spec.label not in refused]).run()
        refused |= found.refused
        for label, sets in found.values.items():
            figures[label] += _figures(trial, sets)
    progress(len(trials), len(trials))
    rows = [
        Ranked(
            spec.text,
            spec.label,
            tuple(percent(rate) for rate, _ in figures[spec.label]),
            tuple(percent(area) for _, area in figures[spec.label]),
        )
        for spec in specs
        if spec.label not in refused
    ]
    return Order(in_order(rows), refused)


def in_order(rows: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """By the rule; sorting is stable, so of equal ones the first named stays first."""
    return tuple(sorted(rows, key=lambda row: (row.mean_fpr95, -row.mean_auroc)))


def _figures(trial: Trial, sets: Mapping[str, FloatArray]) -> list[tuple[float, float]]:
    """FPR95 and AUROC of every fold, averaged over the OOD sets."""
    strange = [scores for name, scores in sets.items() if name != TEST]
    return [
        (
            float(np.mean([fpr_at_tpr(known, scores) for scores in strange])),
            float(np.mean([auroc(known, scores) for scores in strange])),
        )
        for known in trial.cut(sets[TEST])
    ]
