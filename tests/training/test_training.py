"""Training from pictures to weights: what is learnt and written, and that a break changes no bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from made_pictures import CLASSES, striped
from theodolite.core.errors import FormatError, InputError, MissingExtraError, ModelError, TrainingWarning
from theodolite.data import as_picture
from theodolite.data.stacks import ImageStack
from theodolite.features.capture import Capture
from theodolite.models import load_model
from theodolite.training import (
    LearningProgress,
    TrainedClassifier,
    TrainingSettings,
    Watching,
    accuracy_on,
    train_classifier,
)

SPEC = "python:small_models:Dropping?mean=0.5&size=8&std=0.25"
QUICK = TrainingSettings(
    epochs=3, batch_size=16, learning_rate=0.05, augment="crop,flip", padding=1, projection=8, head_steps=300
)
SETTINGS = {
    "supcon": QUICK,
    "ce": replace(QUICK, loss="ce"),
    "adamw": replace(QUICK, loss="ce", optimiser="adamw", learning_rate=0.01),
}


class Stopped(Exception):  # noqa: N818
    """What ends a training in these tests."""


@pytest.fixture(scope="module")
def pictures() -> ImageStack:
    return striped(30, 0)


@pytest.fixture(scope="module")
def trained(pictures: ImageStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainedClassifier]:
    """Three epochs: it does not matter what they have learnt."""
    folder = tmp_path_factory.mktemp("trained")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        return {
            name: train_classifier(SPEC, pictures, folder / name, settings=settings)
            for name, settings in SETTINGS.items()
        }


def stop_at(step: int) -> Callable[[LearningProgress], None]:
    def watch(now: LearningProgress) -> None:
        if now.done == step and not now.resumed and now.loss is None:
            raise Stopped

    return watch


# ---------------------------------------------------------------------- resuming


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_that_was_stopped_ends_with_the_same_bytes(
    name: str, pictures: ImageStack, trained: dict[str, TrainedClassifier], tmp_path: Path
) -> None:
    """In the middle of an epoch, at its end, and twice over; 90 pictures are 6 steps an epoch."""
    for step in (4, 6, 15):
        with pytest.raises(Stopped):
            train_classifier(
                SPEC,
                pictures,
                tmp_path,
                settings=SETTINGS[name],
                watching=Watching(learning=stop_at(step)),
                save_seconds=0,
            )
        assert not (tmp_path / "model.safetensors").exists()
    seen: list[LearningProgress] = []
    again = train_classifier(
        SPEC, pictures, tmp_path, settings=SETTINGS[name], watching=Watching(learning=seen.append)
    )
    assert seen[0].resumed
    assert seen[0].done == 14, "the state of the step before the last stop"
    assert len([now for now in seen if now.loss is None]) == 1 + 18 - 14
    assert again.weights.read_bytes() == trained[name].weights.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors", "training.json"]


def test_a_finished_training_is_found_again(
    pictures: ImageStack, trained: dict[str, TrainedClassifier]
) -> None:
    first = trained["supcon"]
    again = train_classifier(SPEC, pictures, first.weights.parent, settings=QUICK)
    assert again.again
    assert not first.again
    assert again.learnt == first.learnt
    assert again.loaded.digest == first.loaded.digest


def test_another_training_is_not_gone_on_with(
    pictures: ImageStack, trained: dict[str, TrainedClassifier], tmp_path: Path
) -> None:
    place = trained["ce"].weights.parent
    with pytest.raises(
        InputError, match=r"its settings.epochs is 3, asked for is 4\. Choose another --output"
    ):
        train_classifier(SPEC, pictures, place, settings=replace(SETTINGS["ce"], epochs=4))
    renamed = ImageStack("striped", pictures.images, pictures.labels, ("one", "two", "three"))
    for others in (striped(30, 1), renamed):
        with pytest.raises(InputError, match="its pictures is '"):
            train_classifier(SPEC, others, place, settings=SETTINGS["ce"])
    stop = Watching(learning=stop_at(8))
    with pytest.raises(Stopped):
        train_classifier(SPEC, pictures, tmp_path, settings=QUICK, watching=stop)
    with pytest.raises(InputError, match=r"its settings\.seed is 0, asked for is 1"):
        train_classifier(SPEC, pictures, tmp_path, settings=replace(QUICK, seed=1))
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-7] + b"damaged")
    with pytest.raises(FormatError, match="damaged"):
        train_classifier(SPEC, pictures, tmp_path, settings=QUICK)


# ---------------------------------------------------------------------- what is learnt


@pytest.fixture(scope="module")
def able(pictures: ImageStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainedClassifier]:
    folder, spec = tmp_path_factory.mktemp("able"), SPEC.replace("Dropping", "TinyConv")
    longer = replace(QUICK, epochs=15)
    return {
        loss: train_classifier(spec, pictures, folder / loss, settings=replace(longer, loss=loss))
        for loss in ("supcon", "ce")
    }


def test_both_losses_learn(able: dict[str, TrainedClassifier]) -> None:
    held_out = striped(20, 5)
    for name, found in able.items():
        assert found.learnt.losses[-1] < found.learnt.losses[0], name
        assert accuracy_on(found, held_out) > 0.9, name
        assert found.learnt.accuracy > 0.9, name


def test_twins_begin_alike_and_the_head_alone_follows_the_contrastive_loss(
    trained: dict[str, TrainedClassifier],
) -> None:
    one, other = (trained[name].learnt.plan for name in ("supcon", "ce"))
    assert {key for key in one if one[key] != other[key]} == {"settings"}
    begun, ended = load_model(SPEC, pretrained=False).model, trained["supcon"].loaded.model
    for (name, before), after in zip(begun.named_parameters(), ended.parameters(), strict=True):
        assert not torch.equal(before, after), name


def test_the_head_is_the_probe_of_the_frozen_features(
    pictures: ImageStack, able: dict[str, TrainedClassifier]
) -> None:
    """scikit-learn finds no head on the same features that gives more of the labels."""
    linear_model = pytest.importorskip("sklearn.linear_model", reason="pip install scikit-learn")
    loaded = able["supcon"].loaded
    inputs = torch.stack([loaded.preprocess(as_picture(pictures[row].image)) for row in range(len(pictures))])
    capture = Capture(loaded.model)
    features, logits = capture(inputs)
    assert capture.layer == "fc"
    right = float((logits.argmax(dim=1).numpy() == pictures.labels).mean())
    assert right == pytest.approx(able["supcon"].learnt.accuracy)
    best = linear_model.LogisticRegression(C=1e3, max_iter=5_000).fit(features, pictures.labels)
    assert right >= best.score(features, pictures.labels) - 0.01


def test_a_written_classifier_knows_its_pictures_and_classes(trained: dict[str, TrainedClassifier]) -> None:
    weights = trained["ce"].weights
    assert load_model(SPEC, weights=weights).class_names == CLASSES
    assert load_model(SPEC, weights=weights).layer == "fc"
    with pytest.raises(
        ModelError, match=r"was trained as python:small_models:Dropping\?mean=0.5&size=8&std=0.25"
    ):
        load_model("python:small_models:Dropping?mean=0.4&size=8&std=0.25", weights=weights)
    others = ImageStack("other", np.zeros((3, 8, 8), np.uint8), np.arange(3), ("a", "b", "c"))
    with pytest.raises(InputError, match="a label would mean another class"):
        accuracy_on(trained["ce"], others)


def test_a_network_that_has_learnt_nothing_is_told(pictures: ImageStack, tmp_path: Path) -> None:
    """At this rate the projection's units die, and all pictures are mapped to one point."""
    wild = replace(QUICK, epochs=4, learning_rate=0.2)
    with pytest.warns(
        TrainingWarning, match=r"the loss of the last epoch is 3\.3\d+, and 3\.3673 is that of"
    ):
        train_classifier(SPEC.replace("Dropping", "TinyConv"), pictures, tmp_path, settings=wild)


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")
def test_any_source_with_a_last_linear_layer_is_trained(tmp_path: Path) -> None:
    coloured = striped(8, 0, channels=3)
    brief = TrainingSettings(
        epochs=1, batch_size=12, projection=8, head_steps=1, augment="crop,flip,colour,grey"
    )
    small = train_classifier("net:resnet20?size=8", coloured, tmp_path / "net", settings=brief)
    assert small.loaded.spec == "net:resnet20?num_classes=3&size=8"
    assert Capture(small.loaded.model)(torch.zeros(2, 3, 8, 8))[1].shape == (2, 3)
    try:
        timm = train_classifier("timm:test_resnet?size=32", coloured, tmp_path / "timm", settings=brief)
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert timm.loaded.spec == "timm:test_resnet?num_classes=3&size=32"


# ---------------------------------------------------------------------- what is refused


def test_data_that_cannot_be_learnt_from_is_refused(tmp_path: Path) -> None:
    images = np.zeros((4, 8, 8), np.uint8)
    for labels, said in ((None, "4 of 4 pictures have no label"), (np.zeros(4, int), "have one label")):
        with pytest.raises(InputError, match=said):
            train_classifier(SPEC, ImageStack("some", images, labels), tmp_path, settings=QUICK)
    with pytest.raises(InputError, match="the model has 3 classes, but the data has 4"):
        train_classifier(SPEC, ImageStack("some", images, np.arange(4)), tmp_path, settings=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_models_that_cannot_be_trained_are_refused(pictures: ImageStack, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'fc' has no bias"):
        train_classifier(SPEC.replace("Dropping", "NoBias"), pictures, tmp_path, settings=QUICK)
    with pytest.raises(InputError, match="its preprocessing is code"):
        train_classifier("python:small_models:dying", pictures, tmp_path, settings=QUICK)
    with pytest.raises(InputError, match=r"does not take images of shape \(1, 16, 16\)"):
        train_classifier("python:small_models:Tiny?mean=0&size=16", pictures, tmp_path, settings=QUICK)
    with pytest.raises(InputError, match="the last linear layer alone, got 'stem,fc'"):
        train_classifier(SPEC, pictures, tmp_path, settings=QUICK, layer="stem,fc")
    with pytest.raises(InputError, match="padding must be smaller than the pictures, which are 8×8, got 8"):
        train_classifier(SPEC, pictures, tmp_path / "wide", settings=replace(QUICK, padding=8))
    tiny = replace(SETTINGS["ce"], batch_size=1, views=1)
    with pytest.raises(
        ModelError, match="cannot be trained on 1 pictures at once: Expected more than 1 value"
    ):
        train_classifier(
            "net:resnet20?channels=1&size=1",
            pictures,
            tmp_path / "one",
            settings=replace(tiny, augment="none"),
        )


def test_a_loss_that_runs_away_is_told(pictures: ImageStack, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lower the learning rate \(it is 1e\+30\)"):
        train_classifier(
            SPEC, pictures, tmp_path, settings=replace(SETTINGS["ce"], learning_rate=1e30, warm_up=0)
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": "triplet"}, "loss must be supcon or ce, got 'triplet'"),
        ({"optimiser": "adam"}, "did you mean 'adamw'"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"views": 1}, "at least two views of a picture, got 1"),
        ({"batch_size": 1}, "batch_size must be at least 2 for a contrastive loss, got 1"),
        ({"augment": "none"}, "would compare every picture with itself"),
        ({"augment": "crop,blur"}, "'blur' is unknown"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, got nan"),
        ({"momentum": 1.0}, "momentum must be below 1"),
        ({"warm_up": 100.0}, "warm_up must end before the 100 epochs do"),
        ({"projection": 10**30}, "projection must be at most 65,536"),
        ({"weight_decay": -1.0}, "weight_decay must be a number of 0 or more"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TrainingSettings(**changes)  # type: ignore[arg-type]


def test_the_rate_rises_and_falls() -> None:
    settings = TrainingSettings(epochs=5, learning_rate=0.4, warm_up=1)
    rates = [settings.rate(step, 4) for step in range(20)]
    assert rates[:4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert rates[4] == pytest.approx(0.4)
    assert rates[12] == pytest.approx(0.2), "half-way between the warm-up and the end"
    assert rates == [*rates[:4], *sorted(rates[4:], reverse=True)]
    assert 0 < rates[-1] < 0.01
    assert replace(settings, warm_up=0).rate(0, 4) == pytest.approx(0.4)


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")
def test_all_that_is_drawn_is_drawn_in_its_place(pictures: ImageStack, tmp_path: Path) -> None:
    """Neither the training nor its weights touch the random numbers of whoever calls it."""
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    brief = replace(QUICK, epochs=1, warm_up=0, head_steps=1)
    train_classifier("net:lenet5", pictures, tmp_path, settings=brief)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")
def test_layers_that_share_weights_are_written(pictures: ImageStack, tmp_path: Path) -> None:
    settings = replace(SETTINGS["ce"], epochs=1, warm_up=0)
    spec = "python:small_models:Sharing?mean=0&size=8"
    first, second, _ = train_classifier(spec, pictures, tmp_path, settings=settings).loaded.model.children()
    assert isinstance(first, nn.Linear)
    assert first.weight is second.weight
