"""TempScale where the best temperature lies beyond its grid: it says that, and nothing that is not so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import FittingWarning, InputError
from theodolite.reference.reference import Reference

PROBLEM = make_problem(width=20, classes=5, rows=500, seed=5)
LABELS = PROBLEM.labels.clone()
LABELS[::4] = (LABELS[::4] + 1) % 5


def scaled(by: float) -> th.Head:
    return th.Head(by * PROBLEM.head.weight.double(), by * PROBLEM.head.bias.double())


@pytest.mark.parametrize(("by", "where"), [(1e-5, "below"), (1e5, "above")])
def test_a_temperature_beyond_the_grid_is_refused(by: float, where: str, tmp_path: Path) -> None:
    usual = th.TempScale().fit(PROBLEM.train, LABELS, head=scaled(1))
    assert not 1 / 4096 < by * float(usual.temperature) < 4096
    said = rf"outside 1/4096\.\.4096, {where} it: scale the head"
    with pytest.raises(InputError, match=said):
        th.TempScale().fit(PROBLEM.train, LABELS, head=scaled(by))
    halves = [
        th.TempScale().collect(PROBLEM.train[part], LABELS[part], head=scaled(by))
        for part in (slice(0, 200), slice(200, 500))
    ]
    (halves[0] + halves[1]).save(tmp_path / "reference.safetensors")
    with pytest.raises(InputError, match=said):
        th.TempScale().fit(Reference.load(tmp_path / "reference.safetensors"))


@pytest.mark.parametrize("by", [1e-5, 1.0, 1e5])
def test_all_right_and_chance_are_told_apart_from_it(by: float) -> None:
    head = scaled(by)
    with pytest.warns(FittingWarning, match="answers all 500 rows right"):
        found = th.TempScale().fit(PROBLEM.train, head(PROBLEM.train.double()).argmax(1), head=head)
    assert float(found.temperature) == 1
    least = head(PROBLEM.train.double()).argmin(1)
    with pytest.raises(InputError, match="as likely by chance"):
        th.TempScale().fit(PROBLEM.train, least, head=head)


def test_a_scaled_head_scales_the_temperature() -> None:
    usual = th.TempScale().fit(PROBLEM.train, LABELS, head=scaled(1))
    larger = th.TempScale().fit(PROBLEM.train, LABELS, head=scaled(7))
    assert float(larger.temperature) == pytest.approx(7 * float(usual.temperature), rel=1e-6)
    assert torch.isfinite(usual.score(PROBLEM.test)).all()


@pytest.mark.parametrize("by", [1e-5, 1e5])
def test_a_reference_that_does_not_know_why_says_so(by: float) -> None:
    reference = th.TempScale().collect(PROBLEM.train, LABELS, head=scaled(by))
    likelihood = reference.statistics.answers.likelihood
    assert likelihood is not None
    likelihood.facts[:] = torch.nan
    with pytest.raises(InputError, match="did not count why: collect it again"):
        th.TempScale().fit(reference)
