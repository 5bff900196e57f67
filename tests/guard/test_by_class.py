"""Calibration by class: p-values among the same class, the pool of small ones, and the promise to each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom
from torch import Tensor

from made_guards import CLASSES, clusters, fitted, head
from realdata import load_head, load_split
from theodolite.core.errors import FormatError, InputError
from theodolite.core.files import read_tensors
from theodolite.detectors.spec import parse_spec
from theodolite.guard import Calibration, ClassCalibration, Guard
from theodolite.guard.by_class import ALL, pool_small
from theodolite.guard.storage import FORMAT, read_guard

RATES = (0.01, 0.05, 0.1)


# ---------------------------------------------------------------------- p-values


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=5, max_size=60),
    st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 4)), min_size=1, max_size=20),
    st.integers(1, 30),
)
def test_a_p_value_is_a_rank_among_the_same_group(
    known: list[tuple[int, int]], new: list[tuple[int, int]], at_least: int
) -> None:
    """Against the definition, with many ties."""
    scores, predicted = (np.array(column) for column in zip(*known, strict=True))
    groups = pool_small(torch.bincount(torch.from_numpy(predicted), minlength=5), at_least)
    calibration = ClassCalibration(scores.astype(float), predicted, groups)
    values, classes = (np.array(column) for column in zip(*new, strict=True))
    p_values = calibration.p_values(values.astype(float), classes)
    of_group = groups.numpy()
    for score, label, p_value in zip(values, classes, p_values, strict=True):
        same = scores if of_group[label] == ALL else scores[of_group[predicted] == of_group[label]]
        assert p_value == pytest.approx((1 + int((same <= score).sum())) / (len(same) + 1), rel=1e-12)
    if calibration.smallest_rate <= 0.2:
        flagged = calibration.is_ood(values.astype(float), 0.2, classes)
        np.testing.assert_array_equal(flagged, p_values <= 0.2 + 1e-12)
        thresholds = [calibration.threshold(0.2, int(label)) for label in classes]
        np.testing.assert_array_equal(flagged, values < thresholds)


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([200, 300, 100], [0, 1, 2]),  # each large enough
        ([60, 200, 300, 55], [0, 1, 2, 0]),
        ([50, 200, 300, 5], [ALL, 0, 1, ALL]),  # 55 are too few for a pool
        ([0, 250, 0, 150], [ALL, 0, ALL, 1]),  # a class that was never predicted costs no other its own
        ([10, 20, 30], [ALL, ALL, ALL]),
    ],
)
def test_small_classes_are_pooled_and_large_ones_left_alone(counts: list[int], groups: list[int]) -> None:
    assert pool_small(torch.tensor(counts), 100).tolist() == groups


def test_every_group_is_large_enough() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        counts = torch.from_numpy(generator.integers(0, 60, generator.integers(1, 12)))
        groups = pool_small(counts, 40)
        sizes = torch.bincount(groups[groups != ALL], weights=counts[groups != ALL].double())
        assert (sizes >= 40).all()
        assert int(counts[groups == ALL].sum()) < 40


# ---------------------------------------------------------------------- the promise


def test_each_class_keeps_the_promise_where_one_threshold_breaks_it() -> None:
    """Classes whose ID scores differ: made, so that the truth is known. The pool holds classes 3 and 4."""
    generator = np.random.default_rng(0)
    share = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    alarms: dict[str, list[np.ndarray]] = {"one": [], "by class": []}

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        classes = generator.choice(5, count, p=share)
        return generator.normal(classes * 0.7, 1.0), classes

    for _ in range(400):
        scores, classes = draw(1_000)
        new, labels = draw(1_000)
        groups = pool_small(torch.bincount(torch.from_numpy(classes), minlength=5), 80)
        by_class = ClassCalibration(scores, classes, groups)
        for name, flagged in (
            ("one", Calibration(scores).is_ood(new, 0.1)),
            ("by class", by_class.is_ood(new, 0.1, labels)),
        ):
            per_class = [flagged[labels == label].mean() for label in range(3)]
            alarms[name].append(np.array([*per_class, flagged[labels > 2].mean(), flagged.mean()]))
    means = {name: np.mean(rows, axis=0) for name, rows in alarms.items()}
    errors = np.std(alarms["by class"], axis=0) / 400**0.5
    assert means["one"][0] > 0.15, "one threshold for all flags too many of the first class"
    assert (means["by class"] <= 0.1 + 3 * errors).all()
    assert (means["by class"] >= 0.1 - 0.013 - 3 * errors).all(), "and it is not wasted"


@pytest.mark.parametrize("spec", ["ora", "relative-energy", "msp"])
def test_on_real_images_each_class_is_flagged_as_promised(spec: str, data_root: Path) -> None:
    """CIFAR-10, a DenseNet: half of the test images calibrate, the other half is judged."""
    scores, predicted = real_scores(spec, data_root)
    alarms = {rate: np.zeros((20, 10, 2)) for rate in RATES}
    spread = np.zeros((20, 10))
    for seed in range(20):
        order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
        known, new = order[: len(order) // 2], order[len(order) // 2 :]
        groups = pool_small(torch.bincount(predicted[known], minlength=10))
        assert int(groups.max()) == 9
        calibration = ClassCalibration(scores[known], predicted[known], groups)
        for rate in RATES:
            flagged = calibration.is_ood(scores[new], rate, predicted[new])
            for label in range(10):
                own = predicted[new] == label
                count, judged = len(calibration.peers(label)), int(own.sum())
                allowed = int(rate * (count + 1) + 1e-9)
                law = betabinom(judged, allowed, count + 1 - allowed)
                alarms[rate][seed, label] = int(flagged[own].sum()), law.mean()
                spread[seed, label] = law.std()
                assert law.cdf(alarms[rate][seed, label, 0]) > 1e-6
                assert law.sf(alarms[rate][seed, label, 0] - 1) > 1e-6
    for rate in RATES:
        found, expected = alarms[rate].sum(axis=(0, 1))
        assert found == pytest.approx(expected, rel=0.1), "of all classes, over all splits"
    one = Calibration(scores).is_ood(scores, 0.05)
    rates = [float(one[predicted == label].double().mean()) for label in range(10)]
    assert max(rates) > 0.07, "one threshold would not be as fair"
    assert min(rates) < 0.035


def real_scores(spec: str, root: Path) -> tuple[Tensor, Tensor]:
    features, labels = load_split(root, "cifar10-densenet", "id_fit")
    rows, _ = load_split(root, "cifar10-densenet", "id_test")
    classifier = load_head(root, "cifar10-densenet")
    detector = parse_spec(spec).build().fit(features, labels, head=classifier)
    return detector.score(rows), classifier(rows).argmax(dim=1)


# ---------------------------------------------------------------------- guards


def by_class(rate: float = 0.05) -> Guard:
    return fitted(per_class=100, false_alarm_rate=rate)


def rows() -> Tensor:
    noise = torch.randn(100, 16, generator=torch.Generator().manual_seed(2))
    return torch.cat([clusters(300, 5)[0], 3 * noise])


def test_a_guard_judges_each_sample_by_its_class() -> None:
    guard = by_class()
    verdicts = guard.verdicts(rows())
    assert isinstance(guard.calibration, ClassCalibration)
    p_values = guard.calibration.p_values(verdicts.score, verdicts.predicted)
    assert torch.equal(torch.as_tensor(verdicts.p_value), torch.as_tensor(p_values))
    assert torch.equal(torch.as_tensor(verdicts.is_ood), torch.as_tensor(verdicts.p_value) <= 0.05 + 1e-12)
    single = fitted().verdicts(rows())
    assert torch.equal(torch.as_tensor(single.score), torch.as_tensor(verdicts.score))
    assert not torch.equal(torch.as_tensor(single.p_value), torch.as_tensor(verdicts.p_value))


def test_the_same_verdicts_from_a_file_a_state_and_a_graph(tmp_path: Path) -> None:
    guard = by_class(0.1)
    guard.save(tmp_path / "guard.safetensors")
    other = fitted(1_000)
    other.load_state_dict(guard.state_dict())
    back = by_class()
    back.load_state_dict(fitted().state_dict())
    program = torch.export.export(guard, (rows(),), dynamic_shapes=({0: torch.export.Dim("rows")},))
    spoilt = rows()
    spoilt[7] = torch.nan
    expected = guard.verdicts(spoilt, unscorable="flag")
    assert bool(torch.as_tensor(expected.is_ood)[7])
    ways = (
        Guard.load(tmp_path / "guard.safetensors").verdicts(spoilt, unscorable="flag"),
        other.verdicts(spoilt, unscorable="flag"),
        program.module()(spoilt),
    )
    for found in ways:
        for column, right in zip(found, expected, strict=True):
            torch.testing.assert_close(column, torch.as_tensor(right), rtol=1e-6, atol=0, equal_nan=True)
    for column, right in zip(back.verdicts(rows()), fitted().verdicts(rows()), strict=True):
        assert torch.equal(torch.as_tensor(column), torch.as_tensor(right)), "by one threshold again"


def test_a_version_that_knows_one_threshold_refuses_the_file(tmp_path: Path) -> None:
    by_class().save(tmp_path / "by-class.safetensors")
    fitted().save(tmp_path / "plain.safetensors")
    with pytest.raises(FormatError, match="has format 'theodolite-guard/2'"):
        read_tensors(tmp_path / "by-class.safetensors", FORMAT)
    read_tensors(tmp_path / "plain.safetensors", FORMAT)
    assert not isinstance(read_guard(tmp_path / "plain.safetensors").calibration, ClassCalibration)


def test_what_cannot_be_promised_is_refused() -> None:
    guard = by_class()
    with pytest.raises(InputError, match=r"cannot support a false-alarm rate of 0\.001"):
        guard.verdicts(rows(), false_alarm_rate=0.001)
    with pytest.raises(InputError, match="calibrated by class: name the class"):
        guard.calibration.threshold(0.05)
    with pytest.raises(InputError, match="there is no class 5"):
        guard.calibration.threshold(0.05, CLASSES)
    with pytest.raises(InputError, match="pass the classes of the scores"):
        guard.calibration.p_values(np.zeros(3))
    features, labels = clusters(500, 0)
    with pytest.raises(InputError, match="per_class needs a head"):
        Guard.fit(features, labels, detector="knn", per_class=True)
    with pytest.raises(InputError, match="at least one calibration score, got 0"):
        Guard.fit(features, labels, head=head(), per_class=0)
    with pytest.raises(InputError, match="of 7, but the guard has a head of 5"):
        Guard(guard.detector, ClassCalibration(np.arange(40.0), np.zeros(40, int), np.zeros(7, int)))
    for groups in ([0, 2], [[0]], [-2, 0], [0.0, 1.0]):
        with pytest.raises(InputError, match=r"groups|labels"):
            ClassCalibration(np.arange(4.0), np.zeros(4, int), np.array(groups))
    with pytest.raises(InputError, match="no calibration score is of group 1"):
        ClassCalibration(np.arange(4.0), np.zeros(4, int), np.array([0, 1]))


def test_few_calibration_samples_share_one_threshold() -> None:
    features, labels = clusters(400, 0)
    guard = Guard.fit(features, labels, head=head(), per_class=True)
    assert guard.calibration.pooled == tuple(range(CLASSES))
    single = Guard.fit(features, labels, head=head())
    assert torch.equal(
        torch.as_tensor(guard.verdicts(rows()).p_value), torch.as_tensor(single.verdicts(rows()).p_value)
    )
