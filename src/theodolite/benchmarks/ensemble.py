"""Several models' scores on the same samples, combined into one.

Scores are combined sample by sample, so all members must have seen the same ones in the same order. Stores,
and files with ``ids``, know their samples by name; of other sets only the number of rows and the labels can
be compared, which is said, and whether the members' predictions agree more often than by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.arrays import FloatArray
from ..core.errors import InputError
from ..detectors.combination import SUM
from ..guard.calibration import Calibration
from ..guard.ensemble import combined
from .feature_sets import TEST, FeatureSet, identified
from .subject import Subject

# Members that agree less than this many deviations above chance do not seem to look at the same rows.
_DEVIATIONS = 4.0
# A combined score that is the same for more of the held-out ID rows than this does not tell them apart.
_TIED = 0.5


def ensemble_name(subjects: Sequence[Subject], rule: str = SUM) -> str:
    how = "" if rule == SUM else f" ({rule})"
    return f"ensemble of {len(subjects)}{how}: " + " + ".join(subject.name for subject in subjects)


def require_same_samples(subjects: Sequence[Subject]) -> list[str]:
    """Refuse models that did not see the same samples, before any is scored; what could not be compared."""
    if len(subjects) < 2:
        raise InputError("an ensemble needs at least two models: pass --model twice")
    notes = []
    for name in _common(subjects):
        sets = [subject.judged[name] for subject in subjects]
        if len({rows.samples for rows in sets}) > 1:
            raise InputError(
                f"the models did not see the same samples of {name}, in the same order: an ensemble adds "
                f"their scores sample by sample"
            )
        if not all(identified(rows) for rows in sets):
            by = "labels and place" if sets[0].labelled else "place alone"
            notes.append(f"ensemble: the samples of {name} have no ids, and are matched by {by}")
            notes += [f"ensemble, {name}: {doubt}" for doubt in _doubts(subjects, name)]
    if len(_common(subjects)) < 2:
        names = ", ".join(f"{subject.name}: {', '.join(subject.ood)}" for subject in subjects)
        raise InputError(f"the models have no OOD set in common, which an ensemble needs ({names})")
    return notes


class EnsembleScores(NamedTuple):
    """Scores of several models as one, by score and set; scores that have none, with the reason; and what is
    to be known of the rest."""

    values: dict[str, dict[str, FloatArray]]
    refused: dict[str, str]
    notes: list[str]


def ensemble_scores(
    subjects: Sequence[Subject],
    scores: Sequence[Mapping[str, Mapping[str, FloatArray]]],
    rule: str = SUM,
    known: Sequence[Mapping[str, FloatArray]] | None = None,
) -> EnsembleScores:
    """The members' scores as one, by score and set; the paper's rule is the plain sum.

    ``known`` are each member's scores of ID samples, by score: what other rules take its scale from.
    """
    found = EnsembleScores({}, {}, [])
    for label in common_scores(scores):
        scales = None if known is None else [member[label] for member in known]
        try:
            found.values[label] = {
                name: _combined(rule, [member[label][name] for member in scores], scales)
                for name in _common(subjects)
            }
        except InputError as error:
            found.refused[label] = str(error)
    for label, sets in found.values.items() if rule != SUM else ():
        tied = float(np.unique(sets[TEST], return_counts=True)[1].max()) / len(sets[TEST])
        if tied > _TIED:
            found.notes.append(
                f"{ensemble_name(subjects, rule)}, {label}: {100 * tied:.1f} % of the held-out ID rows have "
                f"one and the same score, so its figures say little"
            )
    return found


def not_in_common(
    subjects: Sequence[Subject], scores: Sequence[Mapping[str, Mapping[str, FloatArray]]]
) -> list[str]:
    """Notes of the OOD sets and the scores that an ensemble leaves out, because a model lacks them."""
    sets = [name for subject in subjects for name in subject.ood]
    labels = [label for member in scores for label in member]
    gone = [
        [name for name in dict.fromkeys(names) if name not in common]
        for names, common in ((sets, _common(subjects)), (labels, common_scores(scores)))
    ]
    return [
        f"ensemble: {', '.join(names)} {'is' if len(names) == 1 else 'are'} left out, "
        f"which not all models have"
        for names in gone
        if names
    ]


def common_scores(scores: Sequence[Mapping[str, Mapping[str, FloatArray]]]) -> list[str]:
    """The scores that all members have."""
    return [label for label in scores[0] if all(label in member for member in scores)]


def _combined(rule: str, members: Sequence[FloatArray], known: Sequence[FloatArray] | None) -> FloatArray:
    if rule == SUM:
        total: FloatArray = np.sum(members, axis=0)
        return total
    scales = None if known is None else [Calibration(scores) for scores in known]
    found: FloatArray = combined(rule, [torch.from_numpy(scores) for scores in members], scales).numpy()
    return found


def _common(subjects: Sequence[Subject]) -> list[str]:
    """The sets that all have: held-out ID rows, and OOD sets."""
    return [TEST, *(name for name in subjects[0].ood if all(name in subject.ood for subject in subjects))]


def _doubts(subjects: Sequence[Subject], name: str) -> Iterator[str]:
    """Pairs of members whose predictions agree no more than those of unlike rows would."""
    if len({subject.head.classes for subject in subjects}) > 1:
        return
    predicted = {subject.name: _predicted(subject, subject.judged[name]) for subject in subjects}
    for (one, first), (other, second) in combinations(predicted.items(), 2):
        shares = [
            torch.bincount(labels, minlength=subjects[0].head.classes).double() / len(labels)
            for labels in (first, second)
        ]
        chance = float((shares[0] * shares[1]).sum())
        agreed = float((first == second).double().mean())
        enough = chance + _DEVIATIONS * float(np.sqrt(chance * (1 - chance) / len(first)))
        if agreed < enough <= 1:
            yield (
                f"{one} and {other} agree on the class of {100 * agreed:.1f} % of the rows, and would on "
                f"{100 * chance:.1f} % by chance: the rows seem to be in another order, or of other samples"
            )


@torch.no_grad()
def _predicted(subject: Subject, rows: FeatureSet) -> Tensor:
    return torch.cat([subject.head(features.float()).argmax(dim=1) for features, _, _ in rows])
