"""The recommended score, again: which knob-free score or combination is never far behind the best?

The rule is `regret_rule`, the candidates are `regret_candidates`; both were fixed before any candidate was
scored here. Development sets: the CIFAR-10 DenseNet, the Outlier Exposure ConvNet on MNIST, two ImageNet
networks, sentences of CLINC150, and of the contrastive study each pair of data and loss, the mean over its
seeds. The networks of that study are trained here, or found where it left them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import TEST
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...detectors import RECOMMENDED, detector_record
from ...evaluation import auroc, fpr_at_tpr
from ...report.tables import Table, printed
from ..studies import TableStudy
from ._registry import Context, Need, Produced, experiment
from .contrastive import CIFAR, FASHION, LOSSES, MNIST, SEEDS, subject_of
from .mnist import DATA, OE_WEIGHTS, convnet_subject
from .regret_candidates import candidate_scores, candidates
from .regret_rule import (
    Candidate,
    Decision,
    DevelopmentSet,
    Figure,
    LeftOut,
    best_single,
    decided,
    regrets,
)

# What networks know, and the folders of their features.
FOLDERS = {
    "cifar10-densenet": "CIFAR-10",
    "imagenet-lite0": "ImageNet",
    "imagenet-resnet50": "ImageNet",
    "clinc150-minilm": "CLINC150",
}
DIGITS = "oe-mnist"
TRAINED = {"MNIST": MNIST, "Fashion-MNIST": FASHION, "CIFAR-10": CIFAR}
_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Regret(TableStudy):
    format = "theodolite-regret/1"

    candidates: tuple[Candidate, ...]
    sets: tuple[DevelopmentSet, ...]
    decision: Decision

    def tables(self) -> list[Table]:
        """The decision first, then what it is made of."""
        return [
            self._conditions(),
            self._rows(),
            _left_out(self.decision.without_set, "Chosen without the set that it is reported on"),
            _left_out(self.decision.without_data, "Chosen without all sets of the same ID data"),
            self._regrets(),
            self._figures(),
            self._candidates(),
        ]

    def _conditions(self) -> Table:
        said = self.decision
        rows = [
            [one.condition, printed(one.winner), printed(one.default), "yes" if one.holds else "NO"]
            for one in said.conditions
        ]
        does = "replaces" if said.replaced else "does not replace"
        title = f"The decision: {said.winner} {does} the default"
        if said.winner == said.default:
            title = "The decision: the default is the winner"
        return Table.of_texts(title, ["condition", "winner", said.default, "holds"], rows)

    def _rows(self) -> Table:
        rows = [
            [
                row.candidate,
                printed(row.worst),
                row.on,
                printed(row.mean),
                *("yes" if mark else "" for mark in (row.eligible, row.tied, row.chosen)),
            ]
            for row in self.decision.rows
        ]
        header = ["candidate", "worst regret", "on", "mean regret", "eligible", "tied", "winner"]
        return Table.of_texts("Regret in points of FPR95 over all sets", header, rows)

    def _regrets(self) -> Table:
        regret = regrets(self.sets, self.candidates)
        rows = [
            [row.candidate, *(printed(value) for value in regret[row.candidate].values())]
            for row in self.decision.rows
        ]
        best = [best_single(one, self.candidates) for one in self.sets]
        rows.insert(0, ["(best registered score)", *best])
        header = ["candidate", *(one.name for one in self.sets)]
        return Table.of_texts("Regret on every set; 100 is a refusal", header, rows)

    def _figures(self) -> Table:
        rows = [
            [row.candidate, *(_figure(one, row.candidate) for one in self.sets)] for row in self.decision.rows
        ]
        header = ["candidate", *(one.name for one in self.sets)]
        return Table.of_texts("FPR95 / AUROC in %, average over OOD sets and networks", header, rows)

    def _candidates(self) -> Table:
        rows = [[one.label, one.what] for one in self.candidates]
        return Table.of_texts(
            "The candidates: formulas of registered scores, reasons of the others", ["candidate", ""], rows
        )


def _figure(found: DevelopmentSet, label: str) -> str:
    if label in found.refused:
        return "refused"
    return f"{printed(found.figures[label].fpr95)} / {printed(found.figures[label].auroc)}"


def _left_out(rows: Sequence[LeftOut], title: str) -> Table:
    texts = [[row.set, row.data, row.candidate, printed(row.regret), printed(row.of_default)] for row in rows]
    return Table.of_texts(title, ["left out", "ID data", "chosen", "its regret", "of the default"], texts)


@experiment(
    "regret",
    "Which score to recommend, again: the smallest worst-case regret on eleven sets (trains networks: hours)",
    *DATA,
    Need(OE_WEIGHTS),
    *(Need(folder) for folder in FOLDERS),
    *(Need("cifar10", "train"), Need("cifar10", "test")),
    *(Need("cifar-ood/textures.npz"), Need("cifar-ood/imagenet-resized.npz")),
)
def regret(context: Context) -> Produced:
    return {"regret": study_of(list(development_sets(context)))}


def study_of(sets: Sequence[DevelopmentSet]) -> Regret:
    """The rule, said of what every candidate gave."""
    known = candidates()
    return Regret(
        title="The recommended score, again: the smallest worst-case regret",
        command="theodolite reproduce regret",
        candidates=tuple(known),
        sets=tuple(sets),
        decision=decided(sets, known, detector_record(RECOMMENDED).title),
    )


def development_sets(context: Context) -> Iterator[DevelopmentSet]:
    """All eleven, one after the other."""
    for folder, data in FOLDERS.items():
        yield measured(folder, data, [from_folder(context.root / folder)], context)
    yield measured(DIGITS, "MNIST", [convnet_subject(context)], context)
    for data, task in TRAINED.items():
        pictures = task.sets(context.root)
        for loss in LOSSES:
            networks = (subject_of(task, pictures, loss, context.seed + one, context) for one in range(SEEDS))
            yield measured(f"{data}, {loss}", data, networks, context)


def measured(name: str, data: str, networks: Iterable[Subject], context: Context) -> DevelopmentSet:
    """Every candidate on a set, averaged over its networks."""
    found: list[dict[str, tuple[float, float]]] = []
    refused: dict[str, str] = {}
    for subject in networks:
        context.say(f"regret: every candidate on {name} ({subject.name})")
        scores = candidate_scores(subject, context.scores)
        refused |= scores.refused
        found.append({label: _figures(rows) for label, rows in scores.values.items()})
    able = [one.label for one in candidates() if one.label not in refused]
    means = {label: np.mean([network[label] for network in found], axis=0) for label in able}
    figures = {
        label: Figure(*(round(100 * float(value), _DIGITS) for value in pair))
        for label, pair in means.items()
    }
    return DevelopmentSet(name, data, len(found), figures, refused)


def _figures(rows: Mapping[str, FloatArray]) -> tuple[float, float]:
    """FPR95 and AUROC, averaged over the OOD sets."""
    strange = [values for name, values in rows.items() if name != TEST]
    fpr, area = (
        float(np.mean([metric(rows[TEST], values) for values in strange])) for metric in (fpr_at_tpr, auroc)
    )
    return fpr, area
