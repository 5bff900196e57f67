"""Training of a classifier from pictures to a file of weights, in a folder that it can be resumed from.

With the contrastive loss the encoder learns first and stays as it is while a linear head is trained on its
features; with cross-entropy both learn together. Everything else is the same: the first weights, the batches,
the passes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import InputError, StorageError, TrainingWarning
from ..core.files import read_tensors, write_json, write_tensors
from ..core.plain import JsonObject, from_plain, to_plain
from ..data import ImageSource
from ..features.capture import Capture
from ..features.layers import head_of
from ..features.layout import CHANNELS_LAST, lay_out
from ..features.linear_probe import train_probe
from ..models import LoadedModel, load_model
from ..models.registry import takes_option
from ..models.trained import FORMAT, TrainedAs
from ..models.weights import weights_digest
from .classifier import Classifier
from .learning import SAVE_SECONDS, Learning, Watch
from .pictures import LabelledPictures, classes_of, labels_in, pixels_of, prepared, read_images
from .seeds import seed_at
from .settings import TrainingSettings
from .state import require_same_plan, weights_of

WEIGHTS, STATE, RECORD = "model.safetensors", "state.safetensors", "training.json"
_BATCH = 512
# Of the loss of a network that tells nothing apart: above this share it has not learnt.
_LEARNT = 0.98


@dataclass(frozen=True)
class Watching:
    """Who is told of what: pictures read (done, total), steps learnt, and what begins."""

    reading: Callable[[int, int], None] = lambda _done, _total: None
    learning: Watch = lambda _: None
    say: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class Learnt:
    """What came of a training: its plan, the mean loss of each epoch, the share of its labels it gives."""

    plan: JsonObject
    losses: tuple[float, ...]
    accuracy: float


@dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier, as it is loaded from its file; ``again`` if the folder held it already."""

    weights: Path
    loaded: LoadedModel
    learnt: Learnt
    again: bool = False


def train_classifier(
    model: str,
    source: ImageSource,
    output: str | Path,
    *,
    settings: TrainingSettings | None = None,
    weights: str | Path | None = None,
    layer: str | None = None,
    device: torch.device | str = "cpu",
    watching: Watching | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> TrainedClassifier:
    """Train the model that a spec names on labelled pictures, and write it to ``output``, a folder.

    The weights begin random, by the seed, unless ``weights`` names a file or code of your own (`python:`)
    brings some. The same call again goes on where it was stopped, or finds the folder finished. The file of
    weights is loaded with the same spec: ``load_model(trained.loaded.spec, weights=trained.weights)``.
    """
    settings, watching = settings or TrainingSettings(), watching or Watching()
    folder, place = Path(output), torch.device(device)
    labels = labels_in(source)
    classes = classes_of(labels, source.class_names)
    loaded = _begun(model, classes, settings.seed, weights)
    classifier = Classifier(loaded, place, classes=classes, layer=layer)
    if settings.contrastive:
        classifier.require_bias()
    if settings.channels_last:
        lay_out(loaded.model, CHANNELS_LAST)
    images = read_images(source, pixels_of(loaded), progress=watching.reading)
    pictures = LabelledPictures(images, labels, pixels_of(loaded), source.class_names)
    plan = _plan(loaded, classifier, pictures, settings)
    again = (folder / WEIGHTS).is_file()
    if again:
        learnt = _finished(folder / WEIGHTS, plan)
    else:
        _make(folder)
        learning = Learning(classifier, pictures, settings, place)
        losses = learning.run(folder / STATE, plan, progress=watching.learning, save_seconds=save_seconds)
        _warn_of_nothing_learnt(losses[-1], learning.blank_loss)
        accuracy = _with_head(classifier, pictures, settings, place, watching)
        learnt = Learnt(plan, losses, accuracy)
        _write(folder / WEIGHTS, loaded, classifier, pictures, learnt)
    (folder / STATE).unlink(missing_ok=True)
    write_json(folder / RECORD, {"spec": loaded.spec, **_plain(learnt)})
    with torch.random.fork_rng(devices=[]):
        written = load_model(loaded.spec, weights=folder / WEIGHTS)
    return TrainedClassifier(folder / WEIGHTS, written, learnt, again)


def accuracy_on(trained: TrainedClassifier, source: ImageSource, device: torch.device | str = "cpu") -> float:
    """The share of the labels of other pictures that a trained classifier gives."""
    known = trained.loaded.class_names
    if known is not None and source.class_names is not None and source.class_names != known:
        raise InputError(
            f"the classes of the pictures are {', '.join(source.class_names)}, but those of the training are "
            f"{', '.join(known)}: a label would mean another class"
        )
    labels, pixels = labels_in(source), pixels_of(trained.loaded)
    place, model = torch.device(device), trained.loaded.model.to(device)
    capture = Capture(model, layer=trained.loaded.layer)
    parts = [
        capture(prepared(images, pixels, place))[1].cpu()
        for images in torch.split(read_images(source, pixels), _BATCH)
    ]
    return _share(torch.cat(parts), labels)


def _begun(spec: str, classes: int, seed: int, weights: str | Path | None) -> LoadedModel:
    """The model before its first step, with as many classes as the data has where its source can choose."""
    options: dict[str, int] = {"num_classes": classes} if takes_option(spec, "num_classes") else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_at(seed, "weights"))
        return load_model(spec, weights=weights, pretrained=False, **options)


def _plan(
    loaded: LoadedModel, classifier: Classifier, pictures: LabelledPictures, settings: TrainingSettings
) -> JsonObject:
    """All that decides what comes out; a training is resumed only under the same."""
    said = replace(settings, augment=",".join(settings.augmentation.kinds) or "none")
    return {
        "spec": loaded.spec,
        "layer": classifier.layer,
        "pixels": repr(pictures.pixels),
        "classes": pictures.classes,
        "pictures": pictures.digest,
        "start": weights_digest(loaded.model),
        "settings": to_plain(said),
    }


def _with_head(
    classifier: Classifier,
    pictures: LabelledPictures,
    settings: TrainingSettings,
    place: torch.device,
    watching: Watching,
) -> float:
    """Train the head where the loss did not; then the share of the training labels that it gives."""
    watching.say("features of the training pictures as they are")
    features = torch.cat(
        [
            classifier.frozen_features(pictures.prepared(images, place)).cpu()
            for images in torch.split(pictures.images, _BATCH)
        ]
    )
    if settings.contrastive:
        watching.say(f"a linear head on {classifier.width} frozen features")
        head = train_probe(
            features,
            pictures.labels,
            classes=pictures.classes,
            epochs=math.ceil(settings.head_steps / math.ceil(len(pictures) / _BATCH)),
            batch_size=_BATCH,
            learning_rate=settings.head_rate,
            seed=settings.seed,
        )
        classifier.put_head(head)
    logits = head_of(classifier.head_layer, classifier.layer).cpu().logits(features)
    return _share(logits, pictures.labels)


def _share(logits: Tensor, labels: Tensor) -> float:
    return float((logits.argmax(dim=1) == labels).double().mean())


def _warn_of_nothing_learnt(loss: float, blank: float) -> None:
    if loss > _LEARNT * blank:
        warnings.warn(
            f"the loss of the last epoch is {loss:.4f}, and {blank:.4f} is that of a network which tells "
            f"nothing apart: it has learnt next to nothing. Lower the learning rate, or warm up for "
            f"longer",
            TrainingWarning,
            stacklevel=3,
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the folder {folder}: {error.strerror}. Choose another place"
        ) from error


def _write(
    path: Path, loaded: LoadedModel, classifier: Classifier, pictures: LabelledPictures, learnt: Learnt
) -> None:
    said = TrainedAs(
        loaded.spec, classifier.layer, repr(pictures.pixels), pictures.class_names, _plain(learnt)
    )
    content = to_plain(said)
    assert isinstance(content, dict)
    write_tensors(path, weights_of(loaded.model), {"format": FORMAT, **content})


def _finished(path: Path, plan: JsonObject) -> Learnt:
    """What came of a training that has ended; one of another plan is refused."""
    _, said = read_tensors(path, FORMAT)
    learnt = from_plain(Learnt, said.get("training"), str(path))
    require_same_plan(learnt.plan, plan, path)
    return learnt


def _plain(learnt: Learnt) -> JsonObject:
    content = to_plain(learnt)
    assert isinstance(content, dict)
    return content
