"""MNIST: LeNet-5 trained here, its distances to the boundary beside the paper's, every score, an ensemble.

The paper's appendix trains LeNet-5 on MNIST and compares the largest distance to a decision boundary of MNIST
with that of Fashion-MNIST. It says nothing of the training; ours is `models.training.train`, ten epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from torch import nn

from ...benchmarks.extraction import Extraction
from ...benchmarks.feature_sets import TEST
from ...benchmarks.protocols import protocol
from ...benchmarks.runner import run
from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Subject
from ...core.arrays import FloatArray
from ...core.files import read_tensors, write_tensors
from ...detectors.spec import parse_specs
from ...features.settings import Running
from ...models import LoadedModel, load_model
from ...models.nets.lenet import LeNet5
from ...models.preprocess import Pixels
from ...models.training import one_thread, train
from ...published import load_table
from ...report.tables import Table, printed
from ..studies import RunStudy, TableStudy, Training
from ._registry import Context, Need, Produced, experiment
from .pictures import digest_of, pictures

EPOCHS = 10
CLASSES = 10
OE_WEIGHTS = "oe-mnist/baseline.safetensors"
DATA = (
    Need("mnist", "train"),
    Need("mnist", "test"),
    Need("fashion-mnist", "test"),
    Need("notmnist", "test"),
)
_WEIGHTS = "theodolite-weights/1"
_PIXELS = Pixels(size=28, mean=(0.0,), std=(1.0,))
STATISTICS: Mapping[str, Callable[[FloatArray], np.floating]] = {
    "mean": np.mean,
    "std": np.std,
    "min": np.min,
    "max": np.max,
}
# The sets of the paper's table: our title, the set's name in a subject, the paper's name.
_COMPARED = (("MNIST", TEST, None), ("Fashion-MNIST", "fashion-mnist", "fashion-mnist"))


@dataclass(frozen=True)
class Row:
    """The largest distances to a boundary of one set, beside the published ones."""

    set: str
    samples: int
    mean: float
    std: float
    min: float
    max: float
    published: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """How much further ID samples lie from the boundaries than OOD samples, on average."""

    measured: float
    published: str


@dataclass(frozen=True, kw_only=True)
class Distances(TableStudy):
    format = "theodolite-distances/1"

    training: Training
    rows: tuple[Row, ...]
    difference: Difference

    def tables(self) -> list[Table]:
        rows = [
            [row.set, *(f"{printed(getattr(row, name))} ({row.published[name]})" for name in STATISTICS)]
            for row in self.rows
        ]
        return [Table.of_texts(self.title, ["set", *(f"{name} (published)" for name in STATISTICS)], rows)]


@experiment("mnist", "LeNet-5 on MNIST: distances to the boundary, and every score", *DATA)
def mnist(context: Context) -> Produced:
    subject = lenet_subject(context)
    context.say("mnist: every score on LeNet-5")
    training = Training(EPOCHS, context.seed)
    study = _scored(context, [subject], "Every score on MNIST, LeNet-5", "mnist")
    return {"mnist-lenet5": replace(study, training=training), "mnist-distances": distances(context, subject)}


@experiment(
    "ensemble", "LeNet-5 and the OE ConvNet, alone and summed, on the same digits", *DATA, Need(OE_WEIGHTS)
)
def ensemble(context: Context) -> Produced:
    members = [lenet_subject(context), convnet_subject(context)]
    context.say("ensemble: every score on LeNet-5 and the OE ConvNet")
    title = "LeNet-5 and the OE ConvNet on MNIST, alone and summed"
    return {"ensemble": _scored(context, members, title, "ensemble")}


def _scored(context: Context, subjects: Sequence[Subject], title: str, name: str) -> RunStudy:
    """Every score on networks that were trained here."""
    result = run(
        subjects,
        parse_specs([]),
        title=title,
        command=f"theodolite reproduce {name}",
        ensemble=len(subjects) > 1,
        cache=context.scores,
    )
    return RunStudy(replace(result, seeds={**result.seeds, "training": context.seed}))


def distances(context: Context, subject: Subject) -> Distances:
    """Mean, deviation and range of the largest distance to a boundary, beside the published ones."""
    context.say("mnist: distances to the decision boundary")
    scores = Scorer(subject, parse_specs(["distance"])).run().values["Distance"]
    rows = tuple(_row(title, scores[key], ood) for title, key, ood in _COMPARED)
    known, strange = rows
    published = float(known.published["mean"]) - float(strange.published["mean"])
    return Distances(
        title="Largest distance to a decision boundary, LeNet-5 trained on MNIST",
        command="theodolite reproduce mnist",
        training=Training(EPOCHS, context.seed),
        rows=rows,
        difference=Difference(round(known.mean - strange.mean, 6), printed(published)),
    )


def _row(title: str, scores: FloatArray, ood: str | None) -> Row:
    values = {name: round(float(statistic(scores)), 6) for name, statistic in STATISTICS.items()}
    return Row(title, len(scores), **values, published=published_distances(ood))


def published_distances(ood: str | None) -> dict[str, str]:
    """The paper's figures of an OOD set, or of MNIST itself, by their statistic."""
    return {
        cell.metric.removeprefix("distance-"): cell.printed
        for cell in load_table("mnist-distances").cells()
        if cell.ood == ood
    }


def lenet_subject(context: Context) -> Subject:
    """LeNet-5 on the MNIST protocol; trained once, then its weights are kept."""
    made_of = digest_of(pictures(context.root, "mnist", "train"), train, LeNet5)
    weights = context.cache / f"lenet5-mnist-{EPOCHS}-epochs-seed-{context.seed}-{made_of}.safetensors"
    model = LeNet5(CLASSES)
    if weights.is_file():
        model.load_state_dict(read_tensors(weights, _WEIGHTS)[0])
    else:
        model = _train(context)
        weights.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(weights, model.state_dict(), {"format": _WEIGHTS, "epochs": EPOCHS})
    return _extracted(context, "LeNet-5", _loaded("LeNet-5", model.eval()), "lenet5")


def convnet_subject(context: Context) -> Subject:
    """The Outlier Exposure network on the same digits."""
    loaded = load_model("oe:mnist", weights=context.root / OE_WEIGHTS)
    return _extracted(context, "OE ConvNet", loaded, None)


@one_thread()
def _train(context: Context) -> LeNet5:
    pixels, labels = pictures(context.root, "mnist", "train")
    epochs = count(1)

    def told(loss: float) -> None:
        context.say(f"training LeNet-5, epoch {next(epochs)} of {EPOCHS}: loss {loss:.4f}")

    return train(lambda: LeNet5(CLASSES), pixels, labels, epochs=EPOCHS, seed=context.seed, progress=told)


def _loaded(name: str, model: nn.Module) -> LoadedModel:
    return LoadedModel(
        spec=name,
        model=model,
        preprocess=_PIXELS,
        preprocess_id=repr(_PIXELS),
        input_shape=_PIXELS.input_shape,
        layer="head",
        class_names=tuple("0123456789"),
    )


def _extracted(context: Context, name: str, loaded: LoadedModel, backbone: str | None) -> Subject:
    context.say(f"features of MNIST and its OOD sets under {name}")
    running = Running(batch_size=512, channels_last=False)  # results are compared to the last digit
    extraction = Extraction(protocol("mnist"), context.cache, context.root, running)
    return extraction.subject_of(loaded, name=name, backbone=backbone)
