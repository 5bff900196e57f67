"""Contrastive features against cross-entropy: the paper's claim on networks that are trained here.

The paper's strongest results are on contrastive features, and the authors' later code takes the maximum of
ORA's angles on SupCon networks and their mean on others. Asked here, of networks that differ in their loss
alone:

1. Does SupCon help ORA more than it helps other scores?
2. Is the maximum the right aggregation on SupCon, and the mean on cross-entropy?

`contrastive_study` says by which statistic each is answered. The tasks below, their networks, sizes, rates
and seeds, and these statistics, were fixed before any network of them was scored. On each task a network is
trained from three seeds with each loss (`training`): the same first weights, batches, augmented views and
number of steps. SupCon's head is then trained on the frozen features. Scores are fitted on the training
pictures as they are.

MNIST and Fashion-MNIST take 10,000 and 7,000 pictures, so that all twelve networks are an hour's work of one
core. CIFAR-10 takes all 50,000; its ResNet-20 begins with a convolution of stride 2, which makes an epoch of
two views two and a half minutes of a core instead of nine, and the six networks two hours. A training that is
stopped goes on where it was, and one that has ended is not repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from ...benchmarks.feature_folder import HEAD, from_folder
from ...benchmarks.feature_sets import FIT, TEST
from ...benchmarks.locate import locate
from ...benchmarks.negatives import Negatives
from ...benchmarks.scoring import Scorer
from ...benchmarks.subject import Subject
from ...core.files import write_tensors
from ...core.plain import to_plain
from ...data import ImageSource, open_source
from ...data.sample import labels_of
from ...data.selection import Selection
from ...detectors.spec import DetectorSpec, parse_specs
from ...evaluation import Evaluation, head_accuracy
from ...features.capture import Capture
from ...features.head_files import FOLDER_FORMAT
from ...models.training import one_thread
from ...training import (
    LearningProgress,
    TrainedClassifier,
    TrainingSettings,
    Watching,
    augmentation,
    contrastive,
    learning,
    train_classifier,
    training,
)
from ...training.pictures import pixels_of, prepared, read_images
from ._registry import Context, Need, Produced, experiment
from .contrastive_study import CE, METRICS, SUPCON, Contrastive, Network, answered
from .contrastive_summary import Summary
from .pictures import digest_of

SEEDS = 3
LOSSES = {SUPCON: "supcon", CE: "ce"}
MNIST_TRAINED, FASHION_TRAINED = 10_000, 7_000
# Adam at the rate of `models.training.Recipe`, by which LeNet-5 is trained elsewhere here.
_SMALL = TrainingSettings(
    batch_size=256, optimiser="adamw", learning_rate=2e-3, weight_decay=1e-4, augment="crop", padding=2
)
_DIGITS = 4
_BATCH = 500
# ImageNet's classes of what CIFAR-10 knows, of what is hard to tell from it or often beside it: birds,
# dogs and their kin, cats, frogs, hoofed animals; vehicles on roads and rails, on water and in the air.
CIFAR_LIKE = (
    *(*range(7, 25), *range(80, 101), *range(127, 147), *range(151, 294), 30, 31, 32, *range(339, 356)),
    *(403, 404, 405, 407, 408, 417, 436, 444, 449, 466, 468, 472, 475, 479, 484, 510, 511, 536, 537),
    *(547, 554, 555, 561, 565, 569, 573, 575, 576, 581, 586, 595, 603, 609, 612, 625, 627, 628, 654),
    *(656, 657, 661, 665, 670, 671, 675, 690, 694, 705, 717, 724, 734, 744, 751, 757, 779, 780, 802),
    *(803, 812, 814, 817, 820, 829, 833, 847, 856, 864, 866, 867, 870, 871, 874, 880, 895, 908, 913, 914),
)


@dataclass(frozen=True)
class Task:
    """What is trained on what: ``sets`` are the pictures below a data root, by name."""

    name: str
    title: str
    model: str
    settings: TrainingSettings
    sets: Callable[[Path], Mapping[str, ImageSource]]


def _mnist(root: Path) -> dict[str, ImageSource]:
    train, test = (locate("mnist", split, root, verify=True).open() for split in ("train", "test"))
    others = {name: locate(name, "test", root, verify=True).open() for name in ("fashion-mnist", "notmnist")}
    return {FIT: Selection(train, range(MNIST_TRAINED)), TEST: test, **others, "negatives": Negatives(test)}


def _fashion(root: Path) -> dict[str, ImageSource]:
    """Its 10,000 test pictures, the first part to train on and the rest held out."""
    known = locate("fashion-mnist", "test", root, verify=True).open()
    test = Selection(known, range(FASHION_TRAINED, len(known)))
    others = {name: locate(name, "test", root, verify=True).open() for name in ("mnist", "notmnist")}
    return {FIT: Selection(known, range(FASHION_TRAINED)), TEST: test, **others, "negatives": Negatives(test)}


def _cifar(root: Path) -> dict[str, ImageSource]:
    train, test = (locate("cifar10", split, root).open() for split in ("train", "test"))
    imagenet = open_source(root / "cifar-ood" / "imagenet-resized.npz")
    strange = [row for row, label in enumerate(labels_of(imagenet)) if label not in CIFAR_LIKE]
    digits = ("mnist", "fashion-mnist", "notmnist")
    return {
        FIT: train,
        TEST: test,
        "textures": open_source(root / "cifar-ood" / "textures.npz"),
        "imagenet": Selection(imagenet, strange),
        **{name: locate(name, "test", root, verify=True).open() for name in digits},
    }


MNIST = Task(
    "contrastive-mnist",
    "LeNet-5 on MNIST",
    "net:lenet5?mean=0.1307&std=0.3081",
    replace(_SMALL, epochs=12),
    _mnist,
)
FASHION = Task(
    "contrastive-fashion-mnist",
    "LeNet-5 on Fashion-MNIST",
    "net:lenet5?mean=0.286&std=0.353",
    replace(_SMALL, epochs=16),
    _fashion,
)
CIFAR = Task(
    "contrastive-cifar10",
    "ResNet-20 on CIFAR-10",
    "net:resnet20?stem_stride=2",
    TrainingSettings(
        epochs=8,
        batch_size=256,
        learning_rate=0.1,
        weight_decay=5e-4,
        augment="crop,flip,colour,grey",
        channels_last=True,
    ),
    _cifar,
)
_FAMILY = (Need("mnist", "test"), Need("fashion-mnist", "test"), Need("notmnist", "test"))


@experiment(MNIST.name, "SupCon against cross-entropy: LeNet-5 on MNIST", Need("mnist", "train"), *_FAMILY)
def contrastive_mnist(context: Context) -> Produced:
    return studied(MNIST, context)


@experiment(FASHION.name, "SupCon against cross-entropy: LeNet-5 on Fashion-MNIST", *_FAMILY)
def contrastive_fashion(context: Context) -> Produced:
    return studied(FASHION, context)


@experiment(
    CIFAR.name,
    "SupCon against cross-entropy: ResNet-20 on CIFAR-10 (hours)",
    *(Need("cifar10", "train"), Need("cifar10", "test")),
    *(Need("cifar-ood/textures.npz"), Need("cifar-ood/imagenet-resized.npz")),
    *_FAMILY,
)
def contrastive_cifar10(context: Context) -> Produced:
    return studied(CIFAR, context)


def studied(task: Task, context: Context) -> Produced:
    """Train, score, and answer."""
    sets = task.sets(context.root)
    networks, refused = [], dict[str, str]()
    for seed in (context.seed + number for number in range(SEEDS)):
        for loss in LOSSES:
            subject = subject_of(task, sets, loss, seed, context)
            context.say(f"{task.name}: scores of {loss}, seed {seed}")
            network, without = _network(subject, loss, seed, context)
            networks.append(network)
            refused |= without
    kept = [label for label in networks[0].scores if label not in refused]
    compared = [
        replace(network, scores={label: network.scores[label] for label in kept}) for network in networks
    ]
    gains, place, answers = answered(compared)
    settings = to_plain(task.settings)
    assert isinstance(settings, dict)
    unlike = ("loss", "seed")
    study = Contrastive(
        title=f"SupCon against cross-entropy, {task.title}",
        command=f"theodolite reproduce {task.name}",
        model=task.model,
        settings={name: value for name, value in settings.items() if name not in unlike},
        samples={name: len(source) for name, source in sets.items()},
        networks=tuple(compared),
        refused=refused,
        gains=gains,
        place_of_ora=place,
        answers=answers,
    )
    return {task.name: study}


def subject_of(
    task: Task, sets: Mapping[str, ImageSource], loss: str, seed: int, context: Context
) -> Subject:
    """The features of a network, trained now or before; the head is written last, when they are whole."""
    settings = replace(task.settings, loss=LOSSES[loss], seed=seed)
    place = context.cache / task.name / f"{LOSSES[loss]}-seed-{seed}-{_made_of(task)}"

    def told(now: LearningProgress) -> None:
        if now.loss is not None:
            done = f"epoch {now.epoch} of {now.epochs}: loss {now.loss:.4f}"
            context.say(f"{task.name}: {loss}, seed {seed}, {done}")

    with one_thread():
        trained = train_classifier(
            task.model, sets[FIT], place, settings=settings, watching=Watching(learning=told)
        )
        folder = place / "features"
        if not (folder / HEAD).is_file():
            _write_features(trained, sets, folder)
    return from_folder(folder, name=f"{loss}, seed {seed}")


def _made_of(task: Task) -> str:
    """Names the settings and the code of a training: others are another network."""
    code = digest_of([], augmentation, contrastive, learning, training)
    return hashlib.sha256(f"{task.model} {task.settings} {code}".encode()).hexdigest()[:12]


def _write_features(trained: TrainedClassifier, sets: Mapping[str, ImageSource], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    here = torch.device("cpu")
    pixels, capture = pixels_of(trained.loaded), Capture(trained.loaded.model, layer=trained.loaded.layer)
    for name, source in sets.items():
        shown = [prepared(part, pixels, here) for part in torch.split(read_images(source, pixels), _BATCH)]
        tensors: dict[str, Tensor] = {"features": torch.cat([capture(part)[0] for part in shown])}
        if name in (FIT, TEST):
            tensors["labels"] = torch.tensor(labels_of(source), dtype=torch.int64)
        write_tensors(folder / f"{name}.safetensors", tensors, {"format": FOLDER_FORMAT})
    head = {"weight": capture.head.weight, "bias": capture.head.bias}
    write_tensors(folder / HEAD, head, {"format": FOLDER_FORMAT})


def _network(subject: Subject, loss: str, seed: int, context: Context) -> tuple[Network, dict[str, str]]:
    """Every score on one network, and why some have none."""
    scores = Scorer(subject, _specs(), cache=context.scores).run()
    found = Evaluation.of(scores.values, known=TEST)
    table = {
        label: {
            ood: {metric: round(100 * values[metric], _DIGITS) for metric in METRICS}
            for ood, values in sets.items()
        }
        for label, sets in found.metrics.items()
    }
    right = round(100 * (head_accuracy(subject.head, subject.test) or 0.0), _DIGITS)
    summary = Summary.of(subject.fit, subject.head)
    return Network(loss, seed, right, summary, table), dict(scores.refused)


def _specs() -> list[DetectorSpec]:
    """Every registered score, and ORA with the mean."""
    return [*parse_specs([]), *parse_specs(["ora?aggregate=mean"])]
