"""ORA's maximum and its mean by the number of classes, and what ``aggregate="auto"`` makes of them.

Some classes of a network are drawn; its head keeps their rows, the ID data their samples, and the OOD sets
stay whole. The network itself was trained on all of its classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...benchmarks.feature_folder import from_folder
from ...benchmarks.feature_sets import FeatureSet
from ...benchmarks.subject import Subject
from ...detectors import ORA
from ...evaluation import evaluate
from ...evaluation.metrics import AUROC, FPR95
from ...geometry.aggregation import chosen_aggregate
from ...reference.head import Head
from ...report.tables import Table
from ..studies import Spread, TableStudy
from ._registry import Context, Need, Produced, experiment
from .mnist import DATA, OE_WEIGHTS, convnet_subject

FOLDERS = ("cifar10-densenet", "clinc150-minilm", "imagenet-lite0", "imagenet-resnet50")
COUNTS = (3, 5, 10, 30, 100, 150, 300, 1_000)
DRAWS = 10
# Fewer ID samples than this have no 95 % to speak of.
LEAST_KNOWN = 30
COMPARED = ("max", "mean")


@dataclass(frozen=True)
class Row:
    """FPR95 and AUROC in per cent, averaged over the OOD sets: mean and deviation over draws of classes.

    The deviation has n − 1 in its denominator; all classes are drawn once, and have none.
    """

    network: str
    classes: int
    draws: int
    fpr95: Mapping[str, Spread]
    auroc: Mapping[str, Spread]
    auto: str

    @property
    def regret(self) -> float:
        """FPR95 that "auto" has above the better of the two."""
        return self.fpr95[self.auto].mean - min(self.fpr95[name].mean for name in COMPARED)

    def text(self, name: str) -> str:
        """FPR95 and AUROC of one of the two."""
        found = (self.fpr95[name], self.auroc[name])
        return ", ".join(part.text() if self.draws > 1 else f"{part.mean:.2f}" for part in found)


@dataclass(frozen=True, kw_only=True)
class ClassCount(TableStudy):
    format = "theodolite-class-count/1"

    rows: tuple[Row, ...]

    def tables(self) -> list[Table]:
        header = ["network", "classes", "draws"]
        header += [f"{name}: FPR95, AUROC" for name in COMPARED]
        rows = [
            [
                row.network,
                f"{row.classes:,}",
                str(row.draws),
                *(row.text(name) for name in COMPARED),
                row.auto,
                f"{row.regret:.2f}",
            ]
            for row in self.rows
        ]
        return [Table.of_texts(self.title, [*header, "auto takes", "and loses"], rows)]


@experiment(
    "class-count",
    "ORA with the maximum and with the mean by the number of classes",
    *(Need(folder) for folder in FOLDERS),
    *DATA,
    Need(OE_WEIGHTS),
)
def class_count(context: Context) -> Produced:
    rows: list[Row] = []
    for subject in _subjects(context):
        context.say(f"class-count: {subject.name}")
        rows += _rows(_Held(subject))
    study = ClassCount(
        title="ORA by the number of classes: the largest angle, and the mean",
        command="theodolite reproduce class-count",
        rows=tuple(rows),
    )
    return {"class-count": study}


def _subjects(context: Context) -> Iterator[Subject]:
    yield convnet_subject(context)
    for folder in FOLDERS:
        yield from_folder(context.root / folder)


class _Held:
    """A subject's rows in memory."""

    def __init__(self, subject: Subject) -> None:
        self.name = subject.name
        self.head = subject.head
        self.fit, self.fit_labels = _together(subject.fit)
        self.test, self.test_labels = _together(subject.test)
        self.ood = [_together(rows)[0] for rows in subject.ood.values()]


def _together(rows: FeatureSet) -> tuple[Tensor, Tensor]:
    batches = [(features.float(), labels) for features, labels, _ in rows]
    labels = [torch.zeros(len(part)) if labels is None else labels for part, labels in batches]
    return torch.cat([part for part, _ in batches]), torch.cat(labels)


def _rows(held: _Held) -> list[Row]:
    every = held.head.classes
    counts = [count for count in COUNTS if count < every] + [every]
    rows = []
    for count in counts:
        draws = 1 if count == every else DRAWS
        chosen = [_drawn(every, count, draw) for draw in range(draws)]
        figures = [_figures(held, classes) for classes in chosen]
        if not all(figures):
            continue
        fpr, auroc = (
            {name: _spread([found[name][metric] for found in figures]) for name in COMPARED}
            for metric in (FPR95.name, AUROC.name)
        )
        rows.append(Row(held.name, count, draws, fpr, auroc, chosen_aggregate("auto", count)))
    return rows


def _drawn(every: int, count: int, draw: int) -> Tensor:
    """So many of all classes, in their order."""
    return torch.from_numpy(np.sort(np.random.default_rng(draw).permutation(every)[:count]))


def _figures(held: _Held, kept: Tensor) -> dict[str, dict[str, float]]:
    """Metrics of each reduction on some of the classes; nothing where too few ID samples are left."""
    fit, test = (
        rows[torch.isin(labels, kept)]
        for rows, labels in ((held.fit, held.fit_labels), (held.test, held.test_labels))
    )
    if len(test) < LEAST_KNOWN:
        return {}
    head = Head(held.head.weight[kept], held.head.bias[kept])
    found = {}
    for name in COMPARED:
        detector = ORA(aggregate=name).fit(fit, head=head)
        known = detector.score(test)
        sets = [evaluate(known, detector.score(rows)) for rows in held.ood]
        found[name] = {metric: 100 * float(np.mean([one[metric] for one in sets])) for metric in sets[0]}
    return found


def _spread(values: list[float]) -> Spread:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Spread(round(float(np.mean(values)), 4), round(deviation, 4))
