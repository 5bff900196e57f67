"""Flagging a batch as a whole, at a false discovery rate."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from made_guards import clusters, fitted
from realdata import load_head, load_split
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.detectors.spec import parse_spec
from theodolite.guard import Calibration, ClassCalibration, PathVerdict
from theodolite.guard.discoveries import discoveries, together

# So many calibration scores that none of these batches asks for more.
MANY = Calibration(np.arange(100_000.0))


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60), st.floats(0.01, 0.5))
def test_the_same_as_scipy(ranks: list[int], fdr: float) -> None:
    p_values = np.array(ranks) / 200
    adjusted = false_discovery_control(p_values)
    if np.abs(adjusted / fdr - 1).min() > 1e-9:
        found = discoveries(torch.from_numpy(p_values), fdr, MANY)
        np.testing.assert_array_equal(found.numpy(), adjusted <= fdr)


def test_samples_without_a_p_value_are_not_tested() -> None:
    p_values = torch.tensor([0.001, torch.nan, 0.8, torch.nan, 0.04, 0.9])
    found = discoveries(p_values, 0.1, MANY)
    assert found.tolist() == [True, False, False, False, True, False]
    assert discoveries(torch.tensor([torch.nan]), 0.1, MANY).tolist() == [False]


@pytest.mark.parametrize("spec", ["ora", "relative-energy"])
def test_of_those_flagged_few_are_false_on_real_images(spec: str, data_root: Path) -> None:
    """New CIFAR-10 images among SVHN digits, 300 batches with 1,000 calibration images each."""
    name = "cifar10-densenet"
    features, labels = load_split(data_root, name, "id_fit")
    detector = parse_spec(spec).build().fit(features, labels, head=load_head(data_root, name))
    known = detector.score(load_split(data_root, name, "id_test")[0])
    strange = detector.score(load_split(data_root, name, "svhn")[0])
    generator = torch.Generator().manual_seed(0)
    shares, caught = [], 0
    for _ in range(300):
        order = torch.randperm(len(known), generator=generator)
        odd = strange[torch.randperm(len(strange), generator=generator)[:40]]
        calibration = Calibration(known[order[:1_000]])
        p_values = calibration.p_values(torch.cat([known[order[1_000:1_160]], odd]))
        found = discoveries(p_values, 0.2, MANY)
        shares.append(float(found[:160].sum()) / max(1, int(found.sum())))
        caught += int(found[160:].sum())
    error = np.std(shares) / 300**0.5
    assert np.mean(shares) <= 0.2 * 160 / 200 + 3 * error, "q · m₀ / m"
    assert np.mean(shares) > 0.05, "and it is not wasted"
    assert caught > 0.5 * 40 * 300


def test_verdicts_of_a_batch() -> None:
    guard = fitted(8_000)
    noise = 8 * torch.randn(60, 16, generator=torch.Generator().manual_seed(1))
    rows = torch.cat([clusters(200, 5)[0], noise])
    rows[3] = torch.inf
    plain = guard.verdicts(rows, unscorable="flag")
    verdicts = guard.verdicts(rows, fdr=0.2, unscorable="flag")
    p_values = torch.as_tensor(verdicts.p_value)
    assert torch.equal(torch.nan_to_num(p_values), torch.nan_to_num(torch.as_tensor(plain.p_value)))
    found = discoveries(p_values, 0.2, guard.calibration)
    flagged = torch.as_tensor(verdicts.is_ood)
    assert bool(flagged[3]), "what has no score is flagged, by whatever rule"
    found[3] = True
    assert torch.equal(flagged, found)
    assert int(found[200:].sum()) > 0


def test_files_are_flagged_together(tmp_path: Path) -> None:
    guard = fitted(8_000)
    noise = 8 * torch.randn(60, 16, generator=torch.Generator().manual_seed(1))
    rows = torch.cat([clusters(200, 5)[0], noise])
    for name, part in (("a", rows[:130]), ("b", rows[130:])):
        np.save(tmp_path / f"{name}.npy", part.numpy())
    (batch,) = guard.score_paths([tmp_path / "a.npy", tmp_path / "b.npy"], fdr=0.2)
    expected = torch.as_tensor(guard.verdicts(rows, fdr=0.2).is_ood)
    assert [row.verdict == "OOD" for row in batch] == expected.tolist()
    unread = PathVerdict("x", None, None, None, None, "unreadable")
    (judged,) = together([[unread]], 0.2, MANY)
    assert judged == [unread]


def test_too_few_calibration_scores_are_said() -> None:
    """Nothing found must not look like nothing to be found."""
    guard = fitted(500)
    strange = 8 * torch.randn(200, 16, generator=torch.Generator().manual_seed(1))
    with pytest.raises(InputError, match=r"no sample could be flagged at fdr=0\.001"):
        guard.verdicts(strange, fdr=0.001)
    with pytest.warns(TheodoliteWarning, match=r"of a batch of 200 at fdr=0\.05 at least (\d+) must") as said:
        guard.verdicts(strange, fdr=0.05)
    least = int(str(said[0].message).split("at least ")[1].split()[0])
    smallest = guard.calibration.smallest_p_value
    for count, flagged in ((least, True), (least - 1, False)):
        p_values = torch.tensor([smallest] * count + [1.0] * (200 - count), dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert bool(discoveries(p_values, 0.05, guard.calibration).any()) is flagged


def test_by_class_the_largest_class_decides_whether_anything_can_be_found() -> None:
    """And of a class that is too small for it, it is said."""
    known = ClassCalibration(np.arange(5_030.0), (np.arange(5_030) >= 5_000).astype(int), np.array([0, 1]))
    p_values = torch.cat([torch.full((1,), 1 / 5_001), torch.linspace(0.1, 1, 199)])
    with pytest.warns(TheodoliteWarning) as said:
        assert not discoveries(p_values, 0.02, known).any()
    assert "none of its samples can be flagged at fdr=0.02" in str(said[0].message)
    assert "at least 2 must be" in str(said[1].message)
    assert discoveries(p_values, 0.1, known).tolist() == [True] + [False] * 199


def test_one_rule_at_a_time() -> None:
    guard = fitted(500)
    with pytest.raises(InputError, match="two rules to flag by"):
        guard.verdicts(clusters(10, 5)[0], fdr=0.1, false_alarm_rate=0.1)
    with pytest.raises(InputError, match="must lie between 0 and 1, got 1"):
        guard.verdicts(clusters(10, 5)[0], fdr=1)
