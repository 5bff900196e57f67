"""CoP, CoRP and Residual: options, refusals, mapped views that travel, and memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import space_oracles
import theodolite as th
from oracles import Scores
from synthetic import Problem, make_problem
from theodolite.benchmarks.protocols import protocol
from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_specs
from theodolite.reference import view


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A head of full rank, and units of ever smaller size."""
    made = make_problem(width=24, rows=300)
    sizes = 0.8 ** torch.arange(24)
    weight = made.head.weight + 0.05 * torch.randn(6, 24, generator=torch.Generator().manual_seed(9))
    head = th.Head(weight / sizes, made.head.bias)
    return Problem(head, made.train * sizes, made.labels, made.test * sizes, made.ood * sizes)


def oracle(problem: Problem) -> Scores:
    weight, bias = problem.head.weight.double().numpy(), problem.head.bias.double().numpy()
    return Scores(weight, bias, problem.train.double().numpy(), problem.labels.numpy())


@pytest.mark.parametrize("variance", [0.3, 0.85, 0.99, 0.9999])
def test_options_of_the_formulas(variance: float, problem: Problem) -> None:
    """Also where next to nothing is left over: it is then worked in float64."""
    rows = torch.cat([problem.test[:10], problem.ood[:10]])
    scores, wide = oracle(problem), rows.double().numpy()
    cop = th.CoP(variance=variance).fit(problem.train, head=problem.head)
    expected = np.array([space_oracles.cop(scores, row, variance) for row in wide])
    np.testing.assert_allclose(cop.score(rows).numpy(), expected, rtol=2e-5)
    corp = th.CoRP(gamma=3.0, components=96, variance=variance).fit(problem.train, head=problem.head)
    expected = np.array(
        [space_oracles.corp(scores, row, gamma=3.0, components=96, variance=variance) for row in wide]
    )
    np.testing.assert_allclose(corp.score(rows).numpy(), expected, rtol=2e-5)
    residual = th.Residual(dimension=20).fit(problem.train, head=problem.head)
    expected = np.array([space_oracles.residual(scores, row, 20) for row in wide])
    np.testing.assert_allclose(residual.score(rows).numpy(), expected, rtol=2e-5)


def test_residual_is_the_virtual_logit_of_vim(problem: Problem) -> None:
    vim = th.ViM(dimension=9).fit(problem.train, head=problem.head)
    residual = th.Residual(dimension=9).fit(problem.train, head=problem.head)
    energy = th.Energy().fit(head=problem.head).score(problem.test.double())
    expected = energy + vim.get_buffer("alpha") * residual.score(problem.test.double())
    torch.testing.assert_close(vim.score(problem.test.double()), expected)


def test_a_view_may_be_wider_than_the_features(problem: Problem, tmp_path: Path) -> None:
    detector, ids = th.CoRP(components=64), torch.arange(300)
    halves = [
        detector.collect(problem.train[part], head=problem.head, ids=ids[part])
        for part in (slice(0, 120), slice(120, None))
    ]
    for place, half in enumerate(halves):
        half.save(tmp_path / f"{place}.safetensors")
    one, two = (th.Reference.load(tmp_path / f"{place}.safetensors") for place in range(2))
    assert (one.width, one.statistics.width) == (24, 64)
    merged = detector.fit(one + two)
    assert merged.width == 24
    whole = th.CoRP(components=64).fit(problem.train, head=problem.head)
    torch.testing.assert_close(merged.score(problem.test.double()), whole.score(problem.test.double()))
    for other in (th.CoRP(components=32), th.CoRP(components=64, gamma=3.0), th.CoRP(components=64, seed=1)):
        with pytest.raises(InputError, match=r"statistics of 'unit\+fourier:64,2.0,0' features"):
            other.fit(one)
    narrow = detector.collect(problem.train[:, :12])
    headless = detector.collect(problem.train)
    with pytest.raises(InputError, match="saw features of width 12 and 24"):
        _ = narrow + headless


def test_it_is_mapped_in_pieces(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped rows are M/D times as large as the batch that they are of."""
    whole = th.CoRP(components=64).fit(problem.train, problem.labels, head=problem.head)
    sizes = []
    shape = th.CoRP._shape

    def noted(self: th.CoRP, rows: torch.Tensor) -> torch.Tensor:
        sizes.append(len(rows))
        return shape(self, rows)

    monkeypatch.setattr(view, "BATCH_ENTRIES", 64 * 50)
    monkeypatch.setattr(th.CoRP, "_shape", noted)
    pieces = th.CoRP(components=64).fit(problem.train, problem.labels, head=problem.head)
    assert sizes == [50] * 6
    torch.testing.assert_close(pieces.score(problem.test.double()), whole.score(problem.test.double()))


def test_another_seed_is_another_map_of_the_same_kernel(problem: Problem) -> None:
    one, two = (th.CoRP(seed=seed).fit(problem.train, head=problem.head) for seed in (0, 1))
    first, second = one.score(problem.test), two.score(problem.test)
    assert not torch.equal(first, second)
    assert float(torch.corrcoef(torch.stack([first, second]))[0, 1]) > 0.9


def test_refusals(problem: Problem) -> None:
    for options, message in (
        ({"variance": 1.0}, "variance=1 takes all 24 directions"),
        ({"dimension": 24}, "dimension=24 takes all 24 directions"),
    ):
        with pytest.raises(InputError, match=message):
            th.create("cop", **options).fit(problem.train)
    for make, message in (
        (lambda: th.CoP(variance=0.0), r"variance must lie in \(0, 1\], got 0"),
        (lambda: th.CoP(dimension=0), "dimension must be at least 1, got 0"),
        (lambda: th.CoRP(gamma=0.0), r"gamma must lie in 1e-06\.\.1000, got 0"),
        (lambda: th.CoRP(components=1), r"components must lie in 2\.\.65536, got 1"),
        (lambda: th.Residual(dimension=0), "dimension must be at least 1, got 0"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    with pytest.raises(InputError, match="Residual needs a head"):
        th.Residual().fit(problem.train)
    with pytest.raises(InputError, match="dimension must be below the feature width 24, got 24"):
        th.Residual(dimension=24).fit(problem.train, head=problem.head)


def test_the_field_has_other_settings_on_imagenet() -> None:
    for name in ("imagenet", "near-ood"):
        cop, corp = parse_specs(["cop", "corp"], settings=protocol(name).settings)
        assert cop.build().options()["variance"] == 0.99
        wanted = {"gamma": 3.0, "components": 4096, "variance": 0.5}
        assert {key: corp.build().options()[key] for key in wanted} == wanted
        assert corp.label == "CoRP"
    plain = parse_specs(["corp"], settings=protocol("cifar10").settings)[0].build().options()
    assert (plain["gamma"], plain["components"], plain["variance"]) == (2.0, 2048, 0.8)
