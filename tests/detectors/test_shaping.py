"""Shaping against its formulas, and through the detectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError, NotFittedError
from theodolite.detectors.shaping import SHAPINGS, parse_shaping
from theodolite.reference.percentiles import ActivationHistogram

pytestmark = pytest.mark.usefixtures("few_waves")


def ash_oracle(row: np.ndarray, percentile: float, kind: str) -> np.ndarray:
    kept = max(1, len(row) - round(len(row) * percentile / 100))
    places = np.argsort(row)[::-1][:kept]
    shaped = np.zeros_like(row)
    before, after = row.sum(), row[places].sum()
    if kind == "b":
        shaped[places] = before / kept
    else:
        shaped[places] = row[places] * (np.exp(before / after) if kind == "s" else 1)
    return shaped


@pytest.mark.parametrize("percentile", [10, 35, 65, 90])
@pytest.mark.parametrize("kind", ["s", "b", "p"])
def test_ash(kind: str, percentile: float) -> None:
    rows = torch.randn(20, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).abs()
    shaped = parse_shaping(f"ash-{kind}:{percentile}")(rows).numpy()
    expected = np.stack([ash_oracle(row, percentile, kind) for row in rows.numpy()])
    np.testing.assert_allclose(shaped, expected, rtol=1e-12)


def test_scale() -> None:
    rows = torch.randn(20, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).abs()
    expected = [row * np.exp(row.sum() / np.sort(row)[-6:].sum()) for row in rows.numpy()]
    np.testing.assert_allclose(th.Scale(percentile=85)(rows).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("percentile", [0, 37.3, 80, 90, 99.9, 100])
def test_react_percentile_is_exact_on_arrays(percentile: float) -> None:
    problem = make_problem()
    detector = th.ORA(shaping=th.ReAct(percentile=percentile)).fit(problem.train, head=problem.head)
    assert isinstance(detector.shaping, th.ReAct)
    assert detector.shaping.threshold is not None
    expected = np.percentile(problem.train.double().numpy(), percentile)
    assert float(detector.shaping.threshold) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    shaped = problem.train.clamp_max(expected)
    by_hand = th.ORA().fit(shaped, head=problem.head)
    torch.testing.assert_close(
        detector.score(problem.test), by_hand.score(problem.test.clamp_max(expected)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("percentile", [50, 80, 90, 99])
def test_react_percentile_when_streamed(percentile: float) -> None:
    """Within 0.1 percentile points: the share of activations below the threshold is the share asked for."""
    problem = make_problem(rows=3000)
    batches = [problem.train[start : start + 100] for start in range(0, 3000, 100)]
    detector = th.Energy(shaping=th.ReAct(percentile=percentile)).fit(batches, head=problem.head)
    assert isinstance(detector.shaping, th.ReAct)
    assert detector.shaping.threshold is not None
    threshold = float(detector.shaping.threshold)
    below, upto = (
        float((problem.train < threshold).double().mean()),
        float((problem.train <= threshold).double().mean()),
    )
    assert 100 * below - 0.1 <= percentile <= 100 * upto + 0.1


@given(
    hnp.arrays(np.float32, st.integers(1, 300), elements=st.floats(-1e6, 1e6, width=32)), st.floats(0, 100)
)
def test_histogram_percentiles(values: np.ndarray, percent: float) -> None:
    rows = torch.from_numpy(values)[:, None]
    whole, first, second = (ActivationHistogram() for _ in range(3))
    whole.update(rows)
    first.update(rows[: len(rows) // 2])
    second.update(rows[len(rows) // 2 :])
    assert torch.equal((first + second).counts, whole.counts)
    exact = whole.exact_percentile(percent, lambda: [rows])
    assert exact == pytest.approx(np.percentile(values.astype(np.float64), percent), rel=1e-9, abs=1e-30)
    rank = int(percent / 100 * (len(values) - 1))
    nearest = np.sort(values.astype(np.float64))[rank]
    assert whole.percentile(percent) == pytest.approx(nearest, rel=1e-3, abs=1e-30)


def test_logits_are_recomputed_and_given_ones_ignored() -> None:
    problem = make_problem()
    detector = th.MaxLogit(shaping="ash-p:50").fit(problem.train, head=problem.head)
    expected = problem.head(th.ASHP(percentile=50)(problem.test)).amax(dim=1)
    torch.testing.assert_close(detector.score(problem.test), expected)
    torch.testing.assert_close(detector.score(problem.test, problem.head(problem.test)), expected)


@pytest.mark.parametrize("shaping", SHAPINGS)
@pytest.mark.parametrize("name", th.list_detectors())
def test_composes_with_every_score(name: str, shaping: str, tmp_path: Path) -> None:
    problem = make_problem()
    detector = th.create(name, shaping=shaping).fit(problem.train, problem.labels, head=problem.head)
    scores = detector.score(problem.test)
    assert torch.isfinite(scores).all()
    detector.save(tmp_path / "shaped")
    again = th.load(tmp_path / "shaped")
    assert again.shaping is not None
    assert again.shaping.spec == parse_shaping(shaping).spec
    torch.testing.assert_close(again.score(problem.test), scores, rtol=1e-6, atol=0)


@pytest.mark.parametrize("shaping", SHAPINGS)
def test_rows_of_zeros_stay_zero(shaping: str) -> None:
    """But where a shaping raises what is low, or gives every row the same values."""
    problem = make_problem()
    detector = th.Energy(shaping=shaping).fit(problem.train + 0.5, head=problem.head)
    assert detector.shaping is not None
    shaped = detector.shaping(torch.zeros(2, 48))
    assert torch.isfinite(shaped).all()
    assert bool((shaped == 0).all()) == (shaping not in ("vra-clip", "vra-clip-units", "ras"))


def test_errors() -> None:
    problem = make_problem()
    with pytest.raises(InputError, match=r"called 'reakt'; did you mean 'react'\? Known: react, ash-s"):
        th.ORA(shaping="reakt:80")
    with pytest.raises(InputError, match="must be a percentile"):
        parse_shaping("react:most")
    with pytest.raises(InputError, match=r"percentile must lie in 0\.\.100, got 101"):
        th.ReAct(percentile=101)
    with pytest.raises(NotFittedError, match="ReAct has not learnt its threshold yet"):
        th.ReAct()(problem.test)
    with pytest.raises(InputError, match="an iterator that can be read once"):
        th.ORA(shaping="react").fit(iter([problem.train]), head=problem.head)
    with pytest.raises(InputError, match="ReAct needs them for what it learns"):
        th.MSP(shaping="react").fit(head=problem.head)
    plain = th.ORA().collect(problem.train, head=problem.head)
    with pytest.raises(InputError, match="statistics of 'plain' features, ORA needs 'ash-s:90'"):
        th.ORA(shaping="ash-s").fit(plain)
