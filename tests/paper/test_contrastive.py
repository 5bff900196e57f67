"""The contrastive study in small: from pictures to answers, resumed, and its statistics written out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_pictures import SIDE, striped
from theodolite.benchmarks.feature_sets import FIT, TEST, ArraySet
from theodolite.data import ImageSource
from theodolite.data.stacks import ImageStack
from theodolite.detectors.spec import parse_specs
from theodolite.paper import Context, experiments, read_study
from theodolite.paper.experiments import contrastive
from theodolite.paper.experiments.contrastive import CIFAR, CIFAR_LIKE, FASHION, MNIST, Task, studied
from theodolite.paper.experiments.contrastive_study import (
    CE,
    ORA,
    ORA_MEAN,
    SUPCON,
    Contrastive,
    Interval,
    Network,
    answered,
)
from theodolite.paper.experiments.contrastive_summary import Summary
from theodolite.reference.head import Head
from theodolite.training import TrainingSettings

RESULTS = Path(__file__).parents[2] / "results"
TINY = TrainingSettings(
    epochs=3, batch_size=30, learning_rate=0.05, augment="crop", padding=1, projection=8, head_steps=50
)

SUMMARY = Summary(8, 2.0, 1.0, 80.0, 3.0, 1.0, 0.5, 0.9)
FEW = parse_specs(["msp", "energy", "ora", "fdbd", "ora?aggregate=mean"])


def _sets(_: Path) -> dict[str, ImageSource]:
    noise = np.random.default_rng(0).integers(0, 256, (60, SIDE, SIDE), dtype=np.uint8)
    dark = np.zeros((60, SIDE, SIDE), np.uint8) + np.arange(60, dtype=np.uint8)[:, None, None]
    return {
        FIT: striped(40, 0),
        TEST: striped(20, 1),
        "noise": ImageStack("noise", noise),
        "dark": ImageStack("dark", dark),
    }


TASK = Task(
    "contrastive-tiny", "stripes", "python:small_models:TinyConv?mean=0.5&size=8&std=0.25", TINY, _sets
)


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory, told: list[str]) -> Context:
    place = tmp_path_factory.mktemp("contrastive")
    return Context(place, place / "cache", 0, told.append)


@pytest.fixture(scope="module")
def study(context: Context) -> Contrastive:
    patch = pytest.MonkeyPatch()
    patch.setattr(contrastive, "_specs", lambda: FEW)
    found = studied(TASK, context)["contrastive-tiny"]
    patch.undo()
    assert isinstance(found, Contrastive)
    return found


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")
def test_the_study_goes_from_pictures_to_answers(study: Contrastive, told: list[str]) -> None:
    assert [(row.loss, row.seed) for row in study.networks] == [
        (loss, seed) for seed in range(3) for loss in (SUPCON, CE)
    ]
    assert list(study.gains) == ["MSP", "Energy", ORA, "fDBD", ORA_MEAN]
    assert study.samples == {FIT: 120, TEST: 60, "noise": 60, "dark": 60}
    assert "loss" not in study.settings
    assert read_study(study.to_json()) == study
    assert "Is the maximum right on SupCon?" in study.document()
    assert len([line for line in told if "epoch 3 of 3" in line]) == 6


@pytest.mark.filterwarnings("ignore::theodolite.core.errors.TrainingWarning")
def test_what_was_trained_is_not_trained_again(
    study: Contrastive, context: Context, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contrastive, "_specs", lambda: FEW)
    told.clear()
    again = studied(TASK, context)["contrastive-tiny"]
    assert isinstance(again, Contrastive)
    assert again.networks == study.networks
    assert not [line for line in told if "epoch" in line]


# ---------------------------------------------------------------------- statistics


def made(seed: int) -> list[Network]:
    """Networks with figures drawn at random."""
    rng = np.random.default_rng(seed)
    labels = ("MSP", "KNN", ORA, ORA_MEAN)

    def figures() -> dict[str, dict[str, dict[str, float]]]:
        sets = ("one", "two")
        return {
            label: {ood: {"fpr95": rng.uniform(0, 100), "auroc": rng.uniform(50, 100)} for ood in sets}
            for label in labels
        }

    return [Network(loss, number, 90.0, SUMMARY, figures()) for number in range(3) for loss in (SUPCON, CE)]


def test_answers_are_what_they_say_they_are() -> None:
    """Written out for one set of figures; 4.302653 is the 97.5 % point of Student's t of two degrees."""
    networks = made(4)

    def average(loss: str, seed: int, label: str) -> float:
        (row,) = (row for row in networks if (row.loss, row.seed) == (loss, seed))
        return (row.scores[label]["one"]["fpr95"] + row.scores[label]["two"]["fpr95"]) / 2

    gain = {
        label: np.array([average(CE, seed, label) - average(SUPCON, seed, label) for seed in range(3)])
        for label in ("MSP", "KNN", ORA)
    }
    helped = gain[ORA] - (gain["MSP"] + gain["KNN"]) / 2
    larger = {
        loss: [average(loss, s, ORA_MEAN) - average(loss, s, ORA) for s in range(3)] for loss in (SUPCON, CE)
    }
    gains, place, answers = answered(networks)
    for answer, values in zip(answers, (helped, larger[SUPCON], larger[CE]), strict=True):
        half = 4.302653 * np.std(values, ddof=1) / np.sqrt(3)
        ends = (np.mean(values) - half, np.mean(values) + half)
        assert (answer.fpr95.low, answer.fpr95.high) == pytest.approx(ends, rel=1e-4, abs=1e-3)
        assert answer.fpr95.mean == pytest.approx(np.mean(values), abs=1e-4)
    assert gains["KNN"].mean == pytest.approx(gain["KNN"].mean(), abs=1e-4)
    assert place == 1 + sum(gain[label].mean() > gain[ORA].mean() for label in ("MSP", "KNN"))


@pytest.mark.parametrize(
    ("shift", "said"),
    [
        ({SUPCON: 10.0, CE: -10.0}, ("yes", "yes")),
        ({SUPCON: -10.0, CE: 10.0}, ("no, the mean is", "no, the maximum is")),
        ({SUPCON: 0.0, CE: 0.0}, ("open", "open")),
    ],
)
def test_the_maximum_and_the_mean_are_told_apart(shift: dict[str, float], said: tuple[str, str]) -> None:
    networks = []
    for row in made(0):
        base = {ood: {"fpr95": 50.0 + row.seed, "auroc": 80.0} for ood in ("one", "two")}
        wobble = 0.1 * (row.seed - 1)
        other = {
            ood: {**cell, "fpr95": cell["fpr95"] + shift[row.loss] + wobble} for ood, cell in base.items()
        }
        networks.append(replace(row, scores={**row.scores, ORA: base, ORA_MEAN: other}))
    _, _, answers = answered(networks)
    assert tuple(answer.answer for answer in answers[1:]) == said


def test_more_help_for_ora_is_a_lower_fpr95_on_supcon() -> None:
    networks = []
    for row in made(0):
        level = {"MSP": 50.0, "KNN": 50.0, ORA: 50.0 if row.loss == CE else 20.0, ORA_MEAN: 50.0}
        scores = {
            label: {"one": {"fpr95": value + row.seed, "auroc": 100 - value}}
            for label, value in level.items()
        }
        networks.append(replace(row, scores=scores))
    gains, place, answers = answered(networks)
    assert (gains[ORA].mean, place, answers[0].answer) == (30.0, 1, "yes")
    assert answers[0].auroc.mean == 30.0


def test_an_interval_is_symmetric_and_open_around_zero() -> None:
    found = Interval.of([-1.0, 0.0, 1.0])
    assert (found.mean, found.low, found.high) == (0.0, -2.4842, 2.4842)
    assert found.verdict("yes", "no") == "open"


# ---------------------------------------------------------------------- what networks are like


def test_a_summary_of_features_and_head() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 3], [20, 30, 10])  # class 2 has no rows
    rows = (rng.normal(size=(4, 6)) * 3)[labels] + rng.normal(size=(60, 6)) + 1
    weight, bias = rng.normal(size=(4, 6)), np.array([0.5, -1.0, 0.0, 2.0])
    mean = rows.mean(axis=0)
    means = np.array([rows[labels == label].mean(axis=0) for label in (0, 1, 3)])
    total, inside = ((rows - mean) ** 2).sum(), ((rows - means[[0, 1, 1, 2]][labels]) ** 2).sum()
    covariance = np.cov(rows.T, bias=True)
    own, apart = (weight - weight.mean(axis=0))[[0, 1, 3]], means - mean
    cosines = (own * apart).sum(axis=1) / np.linalg.norm(own, axis=1) / np.linalg.norm(apart, axis=1)
    found = Summary.of(ArraySet(rows, labels), Head(weight, bias))
    assert found.width == 6
    assert [getattr(found, name) for name in Summary.names()[1:]] == pytest.approx(
        np.array(
            [
                np.sqrt((rows**2).sum(axis=1).mean()),
                np.linalg.norm(mean),
                100 * (1 - inside / total),
                np.trace(covariance) ** 2 / (covariance**2).sum(),
                np.linalg.norm(weight, axis=1).mean(),
                3.0,
                cosines.mean(),
            ]
        ),
        abs=1e-4,
    )


# ---------------------------------------------------------------------- the tasks


def test_twins_differ_in_their_loss_alone() -> None:
    for task in (MNIST, FASHION, CIFAR):
        assert task.settings.augment is not None, "else each loss would take its own"
        assert task.name in experiments()
        twin = replace(task.settings, loss="ce")
        assert twin.augmentation == task.settings.augmentation


def test_classes_of_imagenet_that_cifar_knows_are_left_out() -> None:
    assert len(set(CIFAR_LIKE)) == len(CIFAR_LIKE)
    assert {404, 817, 15, 282, 207, 30, 339, 510, 867} < set(CIFAR_LIKE), "one of each class but deer"
    assert not {950, 971, 409, 562, 846} & set(CIFAR_LIKE), "oranges, bubbles, clocks, fountains, tables"


@pytest.mark.parametrize(
    ("name", "least"),
    [("contrastive-mnist", 97), ("contrastive-fashion-mnist", 81), ("contrastive-cifar10", 70)],
)
def test_the_committed_answers_follow_from_the_committed_figures(name: str, least: float) -> None:
    """The networks were trained on another machine; what is said of them is computed again."""
    content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    study = read_study(content)
    assert isinstance(study, Contrastive)
    assert (study.gains, study.place_of_ora, study.answers) == answered(study.networks)
    assert len(study.networks) == 6
    assert all(row.accuracy > least for row in study.networks)
