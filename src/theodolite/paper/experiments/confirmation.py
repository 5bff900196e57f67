"""The recommended score on networks that had no part in its choice.

The tasks, networks, seeds and the criterion below were fixed before any of these networks was scored. On each
task two small networks are trained from three seeds each, on seven tenths of the known pictures; the rest is
held-out ID data. Far tasks know one set of pictures and meet the others and the negatives; near tasks know
the first five classes of a set and meet the other five. The criterion, on every task: averaged over OOD sets
and networks, FPR95 is lower and AUROC higher than those of ORA and of fDBD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from ...benchmarks.feature_folder import HEAD, from_folder
from ...benchmarks.feature_sets import FIT, TEST
from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...core.files import write_tensors
from ...detectors import RECOMMENDED, detector_record
from ...detectors.spec import parse_specs
from ...evaluation import Evaluation, head_accuracy, list_metrics
from ...features.capture import Capture
from ...features.head_files import FOLDER_FORMAT
from ...models.nets.convnet import ConvNet
from ...models.nets.lenet import LeNet5
from ...models.training import one_thread, train
from ...report.tables import Table
from ..studies import Spread, TableStudy
from ._registry import Context, Need, Produced, experiment
from .advice import SCORES
from .pictures import digest_of, features_of, pictures

EPOCHS, SEEDS = 10, (0, 1, 2)
NETWORKS: Mapping[str, Callable[[int], nn.Module]] = {"LeNet-5": LeNet5, "ConvNet": ConvNet}
RIVALS = ("ora", "fdbd")
_TRAINED = 0.7
# The scores that there were when the tasks were fixed.
_SPECS = (*SCORES, "ora?metric=mahalanobis", "ora?metric=mahalanobis&aggregate=mean")


@dataclass(frozen=True)
class Task:
    """Know the first ``classes`` classes of a set; meet ``others`` and negatives, or the classes left."""

    name: str
    known: str
    classes: int
    others: tuple[str, ...] = ()


TASKS = (
    Task("Fashion-MNIST", "fashion-mnist", 10, ("mnist", "notmnist")),
    Task("notMNIST", "notmnist", 10, ("mnist", "fashion-mnist")),
    Task("Fashion-MNIST, near", "fashion-mnist", 5),
    Task("notMNIST, near", "notmnist", 5),
)


@dataclass(frozen=True)
class Split:
    """The pictures of a task."""

    images: Mapping[str, Tensor]
    labels: Mapping[str, Tensor]


@dataclass(frozen=True)
class Network:
    """One trained network: every score by metric, averaged over the OOD sets, in per cent."""

    task: str
    network: str
    seed: int
    accuracy: float
    scores: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Against:
    """The recommended score minus a rival, over the networks of a task."""

    fpr95: Spread
    auroc: Spread
    lower_fpr95: int
    higher_auroc: int
    holds: bool


@dataclass(frozen=True)
class Across:
    """One task: mean and deviation over its networks, and the criterion against every rival."""

    networks: int
    accuracy: Spread
    scores: Mapping[str, Mapping[str, Spread]]
    against: Mapping[str, Against]


@dataclass(frozen=True)
class Trained:
    epochs: int
    seeds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Confirmation(TableStudy):
    format = "theodolite-confirmation/1"

    training: Trained
    tasks: Mapping[str, Across]
    networks: tuple[Network, ...]

    def tables(self) -> list[Table]:
        """First the criterion, then every score on every task."""
        criterion = [
            [
                name,
                rival,
                row.fpr95.text("+"),
                row.auroc.text("+"),
                f"{row.lower_fpr95} and {row.higher_auroc} of {task.networks}",
                "yes" if row.holds else "NO",
            ]
            for name, task in self.tasks.items()
            for rival, row in task.against.items()
        ]
        header = ["task", "against", "FPR95 difference", "AUROC difference", "networks won", "holds"]
        scores = [
            [label, *(_pair(task.scores[label]) for task in self.tasks.values())]
            for label in next(iter(self.tasks.values())).scores
        ]
        accuracy = ["(ID accuracy)", *(task.accuracy.text() for task in self.tasks.values())]
        titles = (
            "Recommended minus rival, mean ± deviation over networks, in points",
            "FPR95 / AUROC in %, mean ± deviation over networks",
        )
        return [
            Table.of_texts(titles[0], header, criterion),
            Table.of_texts(titles[1], ["score", *self.tasks], [*scores, accuracy]),
        ]


def _pair(row: Mapping[str, Spread]) -> str:
    return f"{row['fpr95'].text()} / {row['auroc'].text()}"


@experiment(
    "confirmation",
    "The recommended score against ORA and fDBD on networks that had no part in its choice",
    Need("mnist", "test"),
    Need("fashion-mnist", "test"),
    Need("notmnist", "test"),
)
def confirmation(context: Context) -> Produced:
    networks: list[Network] = []
    for task in TASKS:
        split = split_of(task, context.root)
        for network, make in NETWORKS.items():
            for seed in (context.seed + number for number in SEEDS):
                context.say(f"confirmation: {task.name}, {network}, seed {seed}")
                made_of = digest_of([*split.images.values(), *split.labels.values()], train, make)
                name = f"{task.name}, {network}, {EPOCHS} epochs, seed {seed}, {made_of}"
                folder = context.cache / "confirmation" / name
                subject = _trained(task, split, make, seed, folder)
                right = _percent(head_accuracy(subject.head, subject.test) or 0.0)
                networks.append(Network(task.name, network, seed, right, _averages(subject)))
    return {"confirmation": _study(networks, context)}


def split_of(task: Task, root: Path) -> Split:
    """Known pictures in their order: the first part to train and fit on, the rest held out."""
    images, labels = pictures(root, task.known)
    known = labels < task.classes
    strange = images[~known]
    images, labels = images[known], labels[known]
    at = round(_TRAINED * len(images))
    parts = {FIT: images[:at], TEST: images[at:]}
    parts |= {name: pictures(root, name)[0] for name in task.others}
    parts |= {"negatives": 1 - images[at:]} if task.others else {"other classes": strange}
    return Split(parts, {FIT: labels[:at], TEST: labels[at:]})


@one_thread()
def _trained(task: Task, split: Split, make: Callable[[int], nn.Module], seed: int, folder: Path) -> Subject:
    """A feature folder of the network; the head, written last, says that it is complete."""
    if not (folder / HEAD).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        model = train(
            lambda: make(task.classes), split.images[FIT], split.labels[FIT], epochs=EPOCHS, seed=seed
        )
        capture = Capture(model)
        for name, images in split.images.items():
            tensors = {"features": features_of(capture, images)}
            if name in split.labels:
                tensors["labels"] = split.labels[name]
            write_tensors(folder / f"{name}.safetensors", tensors, {"format": FOLDER_FORMAT})
        head = {"weight": capture.head.weight, "bias": capture.head.bias}
        write_tensors(folder / HEAD, head, {"format": FOLDER_FORMAT})
    return from_folder(folder)


def _averages(subject: Subject) -> dict[str, dict[str, float]]:
    """The tabled metrics of every score, averaged over the OOD sets, in per cent."""
    found = Evaluation.of(Scorer(subject, parse_specs(_SPECS)).run().values, known=TEST)
    return {
        label: {
            metric.name: _percent(found.average(label, metric.name)) for metric in list_metrics(tabled=True)
        }
        for label in found.metrics
    }


def _study(networks: Sequence[Network], context: Context) -> Confirmation:
    labels = [label for label in networks[0].scores if all(label in part.scores for part in networks)]
    return Confirmation(
        title="The recommended score on networks that had no part in its choice",
        command="theodolite reproduce confirmation",
        training=Trained(EPOCHS, tuple(context.seed + number for number in SEEDS)),
        tasks={
            task.name: _across([part for part in networks if part.task == task.name], labels)
            for task in TASKS
        },
        networks=tuple(networks),
    )


def _across(networks: Sequence[Network], labels: Sequence[str]) -> Across:
    values = {
        label: {
            metric: np.array([part.scores[label][metric] for part in networks])
            for metric in networks[0].scores[label]
        }
        for label in labels
    }
    ours = values[detector_record(RECOMMENDED).title]
    against = {}
    for rival in (detector_record(name).title for name in RIVALS):
        fpr, area = (ours[metric] - values[rival][metric] for metric in ("fpr95", "auroc"))
        against[rival] = Against(
            _spread(fpr),
            _spread(area),
            int((fpr < 0).sum()),
            int((area > 0).sum()),
            bool(fpr.mean() < 0 < area.mean()),
        )
    return Across(
        len(networks),
        _spread(np.array([part.accuracy for part in networks])),
        {label: {metric: _spread(found) for metric, found in row.items()} for label, row in values.items()},
        against,
    )


def _spread(values: FloatArray) -> Spread:
    return Spread(round(float(values.mean()), 4), round(float(values.std(ddof=1)), 4))


def _percent(share: float) -> float:
    return round(100 * share, 4)
