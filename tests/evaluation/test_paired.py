"""Paired differences against a slow bootstrap of rows, and what they promise in a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import theodolite as th
from theodolite.core.errors import InputError
from theodolite.evaluation import bootstrap, holm, list_metrics, metric, paired_bootstrap, paired_differences
from theodolite.evaluation.curve import Curve

RNG = np.random.default_rng(7)


def made(*, ties: bool = False) -> dict[str, dict[str, np.ndarray]]:
    """Three scores of the same samples, two of them alike."""
    scores: dict[str, dict[str, np.ndarray]] = {"a": {}, "b": {}, "c": {}}
    for name, rows, shift in (("known", 140, 1.2), ("far", 90, 0.0), ("near", 60, 0.7)):
        shared = RNG.normal(shift, 1, rows)
        for label, noise in (("a", 0.2), ("b", 0.3), ("c", 2.0)):
            values = shared + noise * RNG.normal(size=rows)
            scores[label][name] = np.round(values, 1) if ties else values
    return scores


def slow(
    scores: dict[str, dict[str, np.ndarray]], first: str, second: str, name: str, count: int, seed: int
) -> np.ndarray:
    """Every replicate written out: rows repeated as often as drawn, the metric from plain scores."""
    rng = np.random.default_rng(seed)
    sizes = {part: len(values) for part, values in scores[first].items()}
    drawn = {part: rng.multinomial(rows, np.full(rows, 1 / rows), size=count) for part, rows in sizes.items()}
    found = []
    for replicate in range(count):
        values = {}
        for label in (first, second):
            rows = {part: np.repeat(scores[label][part], drawn[part][replicate]) for part in sizes}
            values[label] = [
                float(metric(name).of(Curve.of(rows["known"], rows[ood]))) for ood in ("far", "near")
            ]
        found.append(np.subtract(values[first], values[second]))
    return np.array(found)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", [known.name for known in list_metrics()])
def test_the_draws_of_rows_written_out_give_the_same(name: str, ties: bool) -> None:
    scores, count = made(ties=ties), 60
    found = paired_differences(scores, "b", known="known", metrics=[name], replicates=count, seed=3)
    assert list(found) == ["a", "c"]
    for label in found:
        expected = slow(scores, label, "b", name, count, seed=3)
        differences = found[label][name]
        columns = {**differences.sets, "average": differences.average}
        drawn = {"far": expected[:, 0], "near": expected[:, 1], "average": expected.mean(axis=1)}
        for part, difference in columns.items():
            low, high = np.quantile(drawn[part], [0.025, 0.975])
            assert (difference.low, difference.high) == pytest.approx((low, high), abs=1e-12)
            # A sum in another order may put an exact 0 a hair beside it.
            below, above = ((sign * drawn[part] <= 1e-12).sum() for sign in (1, -1))
            assert difference.p_value == pytest.approx(min(1, 2 * (1 + min(below, above)) / (count + 1)))
        direct = [
            th.evaluate(scores[label]["known"], scores[label][ood])[name]
            - th.evaluate(scores["b"]["known"], scores["b"][ood])[name]
            for ood in ("far", "near")
        ]
        assert [part.value for part in differences.sets.values()] == pytest.approx(direct, abs=1e-12)
        assert differences.average.value == pytest.approx(np.mean(direct), abs=1e-12)


def test_the_difference_of_auroc_is_that_of_scikit_learn() -> None:
    scores = made()
    truth = np.repeat([1, 0], [140, 90])
    expected = [
        roc_auc_score(truth, np.concatenate([scores[label]["known"], scores[label]["far"]])) for label in "ac"
    ]
    pair = [(scores[label]["known"], scores[label]["far"]) for label in "ac"]
    found = paired_bootstrap(pair[0], pair[1], "auroc", replicates=200)
    assert found.value == pytest.approx(expected[0] - expected[1], abs=1e-12)
    assert found.low < found.value < found.high
    assert found.p_value < 0.05, "noise of twice the signal's size is worse"
    turned = paired_bootstrap(pair[1], pair[0], "auroc", replicates=200)
    assert (turned.value, turned.low, turned.high) == pytest.approx(
        (-found.value, -found.high, -found.low), abs=1e-12
    )
    assert turned.p_value == found.p_value


def test_the_same_ranking_does_not_differ_and_pairs_are_sharper_than_two_intervals() -> None:
    scores = made()
    known, far = scores["a"]["known"], scores["a"]["far"]
    same = paired_bootstrap((known, far), (3 * known - 1, 3 * far - 1), replicates=50)
    assert list(same) == [0, 0, 0, 1]
    paired = paired_bootstrap(
        (known, far), (scores["b"]["known"], scores["b"]["far"]), "auroc", replicates=300
    )
    alone = bootstrap(known, far, "auroc", replicates=300)
    assert paired.high - paired.low < (alone.high - alone.low) / 2


def test_the_interval_covers_the_truth_and_the_test_keeps_its_level() -> None:
    """250 data sets on which two scores are equally good, 250 on which their AUROC differs as is known.

    Noise of standard deviation s in both sets makes the AUROC Φ(δ / √(2 + 2 s²)).
    """
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    runs, rows = 250, 120
    for noises, least_power in (((0.5, 0.5), 0.0), ((0.3, 1.5), 0.8)):
        truth = np.subtract(*(norm.cdf(1.5 / np.sqrt(2 + 2 * noise**2)) for noise in noises))
        covered = rejected = 0
        for seed in range(runs):
            shared = rng.normal(1.5, 1, rows), rng.normal(0, 1, rows)
            (known, ood), (other_known, other_ood) = (
                [part + noise * rng.normal(size=rows) for part in shared] for noise in noises
            )
            found = paired_bootstrap(
                (known, ood), (other_known, other_ood), "auroc", replicates=200, seed=seed
            )
            covered += found.low <= truth <= found.high
            rejected += found.p_value <= 0.05
        # Three standard errors of a share of 0.95 in 250 runs are 0.041.
        assert 0.90 <= covered / runs <= 0.99, covered / runs
        if truth == 0:
            assert rejected / runs <= 0.05 + 0.041, rejected / runs
        else:
            assert rejected / runs >= least_power


def test_holm_is_the_step_down_procedure() -> None:
    values = [0.01, 0.04, 0.03, 0.005]
    assert holm(values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []
    rng = np.random.default_rng(0)
    for _ in range(50):
        drawn = rng.random(6) ** 3
        for level in (0.01, 0.05, 0.2):
            # The procedure as Holm states it: go on while the next smallest passes α / (those that are left).
            passed: set[int] = set()
            for place, index in enumerate(np.argsort(drawn)):
                if drawn[index] > level / (len(drawn) - place):
                    break
                passed.add(int(index))
            assert {place for place, value in enumerate(holm(drawn.tolist())) if value <= level} == passed


def test_scores_that_are_not_of_the_same_samples_are_refused() -> None:
    scores = made()
    with pytest.raises(InputError, match=r"no score is called 'x'.*There are: a, b, c"):
        paired_differences(scores, "x", known="known", metrics=["auroc"])
    with pytest.raises(InputError, match="need the ID set 'other'"):
        paired_differences(scores, "a", known="other", metrics=["auroc"])
    with pytest.raises(InputError, match="replicates must be at least 1, got 0"):
        paired_differences(scores, "a", known="known", metrics=["auroc"], replicates=0)
    with pytest.raises(InputError, match="no metric is called 'fpr'"):
        paired_differences(scores, "a", known="known", metrics=["fpr"])
    scores["b"]["far"] = scores["b"]["far"][1:]
    with pytest.raises(InputError, match="needs both scores of the same samples, row by row"):
        paired_differences(scores, "a", known="known", metrics=["auroc"])
    one, two = np.ones(1), np.arange(2.0)
    with pytest.raises(InputError, match="OOD scores of the second hold NaN at index 1"):
        paired_bootstrap((one, two), (one, np.array([0.0, np.nan])))
