"""Classifier and labels that do not belong together: refused, with what it may come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from made_guards import CLASSES, clusters, head
from realdata import load_head, load_split
from theodolite import Head
from theodolite.core.errors import InputError
from theodolite.evaluation.agreement import Agreement, _binomial_tail, _interval, agreement
from theodolite.features import extract
from theodolite.guard import fit_guard


def measured(features: Tensor, labels: Tensor, own: Head | None = None, batch: int = 700) -> Agreement:
    parts = [
        (a, b, None) for a, b in zip(torch.split(features, batch), torch.split(labels, batch), strict=True)
    ]
    found = agreement(own or head(), parts, len(labels))
    assert found is not None
    return found


# ---------------------------------------------------------------------- the numbers


def test_the_bounds_are_those_of_the_binomial() -> None:
    stats = pytest.importorskip("scipy.stats")
    for count, share, least in (
        (20, 0.5, 17),
        (1000, 0.1, 138),
        (10_000, 0.001, 12),
        (7, 0.3, 0),
        (5, 0.2, 5),
    ):
        assert _binomial_tail(count, share, least) == pytest.approx(stats.binom.sf(least - 1, count, share))
    for right, count in ((138, 1000), (5, 5), (0, 30), (420, 500)):
        expected = stats.binomtest(right, count).proportion_ci(0.98, method="wilson")
        assert _interval(right / count, count) == pytest.approx(tuple(expected), abs=1e-4)


def test_chance_is_that_of_answers_that_know_nothing_of_the_labels() -> None:
    """Shuffled labels: the mean agreement of many shuffles."""
    features, labels = clusters(2_000, 0, spread=3.0)
    labels = torch.where(torch.arange(2_000) < 900, 0, labels)  # a class that is frequent
    answers = head()(features).argmax(dim=1)
    generator = torch.Generator().manual_seed(0)
    shuffled = [
        float((answers == labels[torch.randperm(2_000, generator=generator)]).double().mean())
        for _ in range(200)
    ]
    assert measured(features, labels).chance == pytest.approx(float(np.mean(shuffled)), abs=0.005)


def test_the_rows_are_those_of_the_whole_data() -> None:
    """Sorted by class, as folders are: the first rows would be of one class."""
    features, labels = clusters(25_000, 0)
    order = labels.argsort()
    found = measured(features[order], labels[order])
    assert found.samples == pytest.approx(10_000, abs=2_000)
    assert found.share == pytest.approx(measured(features[:9_000], labels[:9_000]).share, abs=0.02)
    assert found.chance == pytest.approx(1 / CLASSES, abs=0.02)


# ---------------------------------------------------------------------- what is refused


def test_a_sound_classifier_is_not() -> None:
    for count in (30, 200, 4_000):
        for spread in (0.5, 2.0, 5.0):
            features, labels = clusters(count, 1, spread)
            found = measured(features, labels)
            assert found.problem is None, found


def test_labels_that_number_other_classes() -> None:
    features, labels = clusters(2_000, 0)
    found = measured(features, (labels + 1) % CLASSES)
    assert found.near_chance
    assert found.problem is not None
    assert "Under other numbers its answers would be 9" in found.problem
    assert "most likely the labels number other classes" in found.problem


def test_answers_that_are_all_the_same() -> None:
    """As of a network whose pictures are scaled wrongly: on rare other classes it looks right."""
    features, labels = clusters(2_000, 0)
    labels = torch.where(torch.arange(2_000) < 1_700, 2, labels)
    bias = torch.zeros(CLASSES)
    bias[2] = 1e4
    found = measured(features, labels, Head(head().weight, bias))
    assert found.share > 0.85
    assert found.near_chance
    assert "hardly more than by chance" in str(found.problem)


def test_a_few_more_than_by_chance_are_near_chance() -> None:
    """13.8 % of ten classes: no accident, and no classifier either."""
    found = Agreement(share=0.138, samples=5_000, chance=0.1, means=None, renamed=0.2)
    assert found.near_chance
    assert "?size=…&crop=…&mean=…&std=…" in str(found.problem)
    assert not replace(found, share=0.25).near_chance
    assert replace(found, share=0.25, samples=12).near_chance, "so few cannot show it"
    assert not replace(found, share=0.83, samples=12, chance=0.48).near_chance, "though it looks well"
    assert not Agreement(1.0, 2, 0.3, None, 1.0).near_chance, "nor can these show anything"


def test_far_less_than_the_features_would_give() -> None:
    found = Agreement(share=0.44, samples=2_000, chance=0.1, means=0.85, renamed=0.5)
    assert found.far_below
    assert "while the class means of its own features give 85.0 %" in str(found.problem)
    assert not replace(found, share=0.75).far_below
    assert not replace(found, samples=20).far_below
    assert not replace(found, means=None).far_below


def test_labels_of_one_class_can_show_little() -> None:
    features, labels = clusters(6_000, 0)
    of_one = labels == 3
    assert measured(features[of_one], labels[of_one]).problem is None
    assert measured(features[of_one], labels[of_one] * 0 + 1).problem is not None


def test_a_zero_shot_head_is_not_held_to_class_means() -> None:
    features, labels = clusters(2_000, 0)
    assert measured(features, labels, Head.cosine(head().weight)).means is None
    assert measured(features, labels).means == pytest.approx(1.0, abs=0.05)


def test_without_labels_nothing_is_said() -> None:
    features, _ = clusters(100, 0)
    assert agreement(head(), [(features, None, None)], 100) is None


# ---------------------------------------------------------------------- real networks


@pytest.mark.parametrize(
    "folder", ["cifar10-densenet", "imagenet-lite0", "imagenet-resnet50", "clinc150-minilm"]
)
@pytest.mark.parametrize("part", ["id_fit", "id_test"])
def test_real_features_and_labels(data_root: Path, folder: str, part: str) -> None:
    own, (features, labels) = load_head(data_root, folder), load_split(data_root, folder, part)
    assert labels is not None
    labels = labels.long()
    assert measured(features, labels, own).problem is None
    mixed_up = torch.randperm(own.classes, generator=torch.Generator().manual_seed(0))[labels]
    assert measured(features, mixed_up, own).near_chance


def test_pictures_that_are_not_prepared_as_in_training(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MNIST in negative: 44 % of the labels, where 99 % are right and class means still give 85 %."""
    from theodolite.data import open_source

    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    source = open_source(data_root / "mnist/t10k-images-idx3-ubyte.gz")
    samples = [source[index] for index in range(0, 10_000, 4)]
    images = np.stack([np.asarray(sample.image) for sample in samples])
    labels = np.array([sample.label for sample in samples], dtype=np.int64)
    np.savez(tmp_path / "right.npz", images=images, labels=labels)
    np.savez(tmp_path / "negative.npz", images=255 - images, labels=labels)
    weights = data_root / "oe-mnist/baseline.safetensors"
    right = fit_guard(tmp_path / "right.npz", "oe:mnist", weights=weights)
    assert right.agreement == pytest.approx(0.99, abs=0.01)
    with pytest.raises(InputError, match=r"gives 4\d\.\d % of the labels, while the class means .* --force"):
        fit_guard(tmp_path / "negative.npz", "oe:mnist", weights=weights)
    with pytest.raises(InputError, match="hardly more than by chance"):
        fit_guard(tmp_path / "right.npz", "oe:mnist?crop=0.15", weights=weights)
    forced = fit_guard(tmp_path / "negative.npz", "oe:mnist", weights=weights, force=True)
    assert "while the class means" in forced.notes[0]
    assert not extract(tmp_path / "right.npz", "oe:mnist", weights=weights).damaged()
