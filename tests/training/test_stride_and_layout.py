"""A first convolution of stride 2, and pictures with their channels last: resumed alike, and never taken for
another network."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from made_pictures import striped
from theodolite.core.errors import InputError, ModelError, TrainingWarning
from theodolite.data.stacks import ImageStack
from theodolite.features.capture import Capture
from theodolite.features.layout import CHANNELS_LAST, is_channels_last, lay_out
from theodolite.models import load_model
from theodolite.training import (
    LearningProgress,
    TrainedClassifier,
    TrainingSettings,
    Watching,
    accuracy_on,
    train_classifier,
)

SPEC = "net:resnet20?size=8&stem_stride=2"
FULL = "net:resnet20?num_classes=3&size=8&stem_stride=2"
BRIEF = TrainingSettings(
    epochs=2, batch_size=12, projection=8, head_steps=4, augment="crop", padding=1, channels_last=True
)
pytestmark = pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")


class Stopped(Exception):  # noqa: N818
    """What ends a training in these tests."""


@pytest.fixture(scope="module")
def pictures() -> ImageStack:
    return striped(8, 0, channels=3)


@pytest.fixture(scope="module")
def trained(pictures: ImageStack, tmp_path_factory: pytest.TempPathFactory) -> TrainedClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        return train_classifier(SPEC, pictures, tmp_path_factory.mktemp("trained"), settings=BRIEF)


def test_the_stride_halves_what_the_stages_see() -> None:
    sides = []
    for spec in (FULL, FULL.replace("&stem_stride=2", "")):
        model = load_model(spec, pretrained=False).model
        model.get_submodule("layer1").register_forward_pre_hook(
            lambda _, args: sides.append(tuple(args[0].shape[2:]))
        )
        model(torch.zeros(1, 3, 8, 8))
    assert sides == [(4, 4), (8, 8)]


def test_both_layouts_give_the_same_features(trained: TrainedClassifier) -> None:
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    model = load_model(FULL, weights=trained.weights).model
    assert not is_channels_last(model)
    features, logits = Capture(model)(images)
    lay_out(model, CHANNELS_LAST)
    assert is_channels_last(model)
    again, other = Capture(model)(images)
    torch.testing.assert_close(again, features, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other, logits, rtol=1e-4, atol=1e-3)


def test_a_step_in_either_layout_is_the_same_up_to_rounding(pictures: ImageStack, tmp_path: Path) -> None:
    """One step only: what rounding changes grows with every further one."""
    one = replace(BRIEF, loss="ce", epochs=1, warm_up=0, batch_size=24, learning_rate=0.01)
    models = [
        train_classifier(
            SPEC, pictures, tmp_path / str(last), settings=replace(one, channels_last=last)
        ).loaded.model
        for last in (True, False)
    ]
    begun = load_model(FULL, pretrained=False).model
    for (name, last), first, before in zip(
        models[0].named_parameters(), models[1].parameters(), begun.parameters(), strict=True
    ):
        torch.testing.assert_close(last, first, rtol=1e-3, atol=1e-4, msg=name)
        assert not torch.equal(first, before), name


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_killed_training_with_channels_last_ends_with_the_same_bytes(
    optimiser: str, pictures: ImageStack, trained: TrainedClassifier, tmp_path: Path
) -> None:
    settings = replace(BRIEF, optimiser=optimiser, learning_rate=0.1 if optimiser == "sgd" else 0.002)
    whole = trained.weights
    if optimiser != "sgd":
        whole = train_classifier(SPEC, pictures, tmp_path / "whole", settings=settings).weights

    def stop(now: LearningProgress) -> None:
        if now.done == 3 and now.loss is None:
            raise Stopped

    place = tmp_path / "killed"
    with pytest.raises(Stopped):
        train_classifier(
            SPEC, pictures, place, settings=settings, watching=Watching(learning=stop), save_seconds=0
        )
    seen: list[LearningProgress] = []
    again = train_classifier(
        SPEC, pictures, place, settings=settings, watching=Watching(learning=seen.append)
    )
    assert seen[0].resumed
    assert seen[0].done == 2
    assert again.weights.read_bytes() == whole.read_bytes()


def test_the_layout_is_part_of_what_a_training_is_known_by(
    pictures: ImageStack, trained: TrainedClassifier
) -> None:
    with pytest.raises(InputError, match=r"its settings\.channels_last is True, asked for is False"):
        train_classifier(SPEC, pictures, trained.weights.parent, settings=replace(BRIEF, channels_last=False))
    with pytest.raises(InputError, match=rf"its spec is '{FULL.replace('?', '[?]')}', asked for is"):
        train_classifier("net:resnet20?size=8", pictures, trained.weights.parent, settings=BRIEF)


def test_weights_know_their_stride(pictures: ImageStack, trained: TrainedClassifier, tmp_path: Path) -> None:
    """They fit a network without it as well, which would give other answers without a word."""
    record = json.loads((trained.weights.parent / "training.json").read_text())
    assert trained.loaded.spec == record["spec"] == FULL
    plain = FULL.replace("&stem_stride=2", "")
    for wrong in (plain, f"{plain}&stem_stride=1"):
        with pytest.raises(
            ModelError, match=r"with stem_stride=2, but .* has stem_stride=1: the weights fit"
        ):
            load_model(wrong, weights=trained.weights)
    other = train_classifier("net:resnet20?size=8", pictures, tmp_path, settings=replace(BRIEF, epochs=1))
    assert load_model(f"{plain}&stem_stride=1", weights=other.weights).digest == other.loaded.digest
    with pytest.raises(ModelError, match=r"with stem_stride=1, but .* has stem_stride=2"):
        load_model(FULL, weights=other.weights)
    assert accuracy_on(trained, pictures) == pytest.approx(trained.learnt.accuracy)
