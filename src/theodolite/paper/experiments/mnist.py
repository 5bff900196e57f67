"""MNIST: LeNet-5 trained here, its distances to the boundary beside the paper's, every score, an ensemble.

The paper's appendix trains LeNet-5 on MNIST and compares the largest distance to a decision boundary of MNIST
with that of Fashion-MNIST. It says nothing of the training; ours is `models.training.train`, ten epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from torch import nn

from ... import published
from ...benchmarks.protocols import TEST, protocol
from ...benchmarks.results import versions
from ...benchmarks.runner import Outcome, run
from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Extraction, Subject
from ...core.files import read_tensors, write_tensors
from ...detectors.spec import parse_entries
from ...models import LoadedModel, load_model
from ...models.nets.lenet import LeNet5
from ...models.preprocess import Pixels
from ...models.training import one_thread, train
from ...report.grid import printed
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
STATISTICS: dict[str, Callable[[Any], Any]] = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}


@experiment("mnist", "LeNet-5 on MNIST: distances to the boundary, and every score", *DATA)
def mnist(context: Context) -> Produced:
    subject = lenet_subject(context)
    context.say("mnist: every score on LeNet-5")
    outcome = _run(context, [subject], "Every score on MNIST, LeNet-5", "mnist")
    outcome.results["seeds"] |= {"training": context.seed}
    outcome.results["training"] = {"epochs": EPOCHS, "seed": context.seed}
    return {"mnist-lenet5": outcome.results, "mnist-distances": distances(context, subject)}


@experiment(
    "ensemble", "LeNet-5 and the OE ConvNet, alone and summed, on the same digits", *DATA, Need(OE_WEIGHTS)
)
def ensemble(context: Context) -> Produced:
    members = [lenet_subject(context), convnet_subject(context)]
    context.say("ensemble: every score on LeNet-5 and the OE ConvNet")
    title = "LeNet-5 and the OE ConvNet on MNIST, alone and summed"
    outcome = _run(context, members, title, "ensemble", ensemble=True)
    outcome.results["seeds"] |= {"training": context.seed}
    return {"ensemble": outcome.results}


def _run(context: Context, subjects: list[Subject], title: str, name: str, ensemble: bool = False) -> Outcome:
    return run(
        subjects,
        parse_entries([]),
        title=title,
        command=f"theodolite reproduce {name}",
        ensemble=ensemble,
        cache=context.cache / "scores",
    )


def distances(context: Context, subject: Subject) -> dict[str, Any]:
    """Mean, deviation and range of the largest distance to a boundary, beside the published ones."""
    context.say("mnist: distances to the decision boundary")
    scores = Scorer(subject, parse_entries(["distance"])).run().values["Distance"]
    rows: list[dict[str, Any]] = []
    for label, key, ood in (("MNIST", TEST, None), ("Fashion-MNIST", "fashion-mnist", "fashion-mnist")):
        cells = {
            cell.metric.removeprefix("distance-"): cell.printed
            for cell in published.load_table("mnist-distances").cells()
            if cell.ood == ood
        }
        values = {name: round(float(statistic(scores[key])), 6) for name, statistic in STATISTICS.items()}
        rows.append({"set": label, "samples": len(scores[key]), **values, "published": cells})
    return {
        "format": "theodolite-distances/1",
        "title": "Largest distance to a decision boundary, LeNet-5 trained on MNIST",
        "command": "theodolite reproduce mnist",
        "versions": versions(),
        "training": {"epochs": EPOCHS, "seed": context.seed},
        "rows": rows,
        "difference": {
            "measured": round(rows[0]["mean"] - rows[1]["mean"], 6),
            "published": printed(5.86 - 4.77),
        },
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
    extraction = Extraction(protocol("mnist"), context.cache, context.root, batch_size=512)
    return extraction.subject(name, loaded=loaded, backbone=backbone, place=f"{name}-{loaded.digest[:12]}")
