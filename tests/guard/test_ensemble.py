"""Ensembles: the paper's sum, the other combinations, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError, NotFittedError
from theodolite.guard.calibration import Calibration

PROBLEMS = [make_problem(width=48, seed=0), make_problem(width=30, seed=1)]


def members(kind: type[th.Detector] = th.ORA) -> list[th.Detector]:
    return [kind().fit(problem.train, problem.labels, head=problem.head) for problem in PROBLEMS]


def test_plain_sum() -> None:
    pair = members()
    rows = [problem.test for problem in PROBLEMS]
    expected = pair[0].score(rows[0]).double() + pair[1].score(rows[1]).double()
    combined = th.Ensemble(pair).score(rows)
    assert isinstance(combined, torch.Tensor)
    torch.testing.assert_close(combined, expected)
    assert isinstance(th.Ensemble(pair).score([row.numpy() for row in rows]), np.ndarray)


def test_members_with_the_same_features_score_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = PROBLEMS
    trio: list[th.Detector] = [
        th.MSP().fit(head=first.head),
        th.ORA().fit(second.train, second.labels, head=second.head),
        th.Energy().fit(head=first.head),
    ]
    rows = [first.test, second.test, first.test]
    expected = torch.stack([member.score(row).double() for member, row in zip(trio, rows, strict=True)]).sum(
        dim=0
    )
    products, logits = [], th.Head.logits

    def counted(head: th.Head, prepared: torch.Tensor) -> torch.Tensor:
        products.append(head.width)
        return logits(head, prepared)

    monkeypatch.setattr(th.Head, "logits", counted)
    torch.testing.assert_close(th.Ensemble(trio).score(rows), expected)
    assert sorted(products) == [30, 48]


def test_standardised_sum_does_not_depend_on_the_members_scales() -> None:
    pair = members(th.Energy)
    held_out, rows = [p.train[:100] for p in PROBLEMS], [p.test for p in PROBLEMS]
    first = th.Ensemble(pair, combine="standardised").calibrate(held_out).score(rows)
    loud = th.Head(PROBLEMS[1].head.weight * 10, PROBLEMS[1].head.bias * 10)
    expected = torch.stack(
        [
            (member.score(row).double() - member.score(held).double().mean())
            / member.score(held).double().std(correction=0)
            for member, row, held in zip(pair, rows, held_out, strict=True)
        ]
    ).mean(dim=0)
    torch.testing.assert_close(first, expected)
    assert not torch.equal(
        torch.as_tensor(th.Ensemble([pair[0], th.Energy().fit(head=loud)]).score(rows)),
        torch.as_tensor(th.Ensemble(pair).score(rows)),
    )


def test_mean_of_p_values() -> None:
    pair = members(th.MSP)
    held_out, rows = [p.train[:100] for p in PROBLEMS], [p.test for p in PROBLEMS]
    combined = th.Ensemble(pair, combine="p-values").calibrate(held_out).score(rows)
    expected = torch.stack(
        [Calibration(m.score(h)).p_values(m.score(r)) for m, h, r in zip(pair, held_out, rows, strict=True)]
    ).mean(dim=0)
    torch.testing.assert_close(combined, expected)


def test_refusals() -> None:
    pair, rows = members(), [problem.test for problem in PROBLEMS]
    ensemble = th.Ensemble(pair)
    with pytest.raises(InputError, match=r"different numbers of samples: \[120, 119\]"):
        ensemble.score([rows[0], rows[1][:-1]])
    names = [f"image-{n}" for n in range(120)]
    ensemble.score(rows, ids=[names, names])
    with pytest.raises(InputError, match="row 3 is 'image-3' for member 0 and 'other' for member 1"):
        ensemble.score(rows, ids=[names, [*names[:3], "other", *names[4:]]])
    with pytest.raises(InputError, match="member 0 has 5 ids for 120 samples"):
        ensemble.score(rows, ids=[names[:5], names])
    with pytest.raises(InputError, match="features must be a list of 2 arrays"):
        ensemble.score([rows[0]])
    with pytest.raises(InputError, match="combine must be one of sum, standardised, p-values"):
        th.Ensemble(pair, combine="product")
    with pytest.raises(InputError, match="detectors is empty"):
        th.Ensemble([])
    with pytest.raises(NotFittedError, match="call calibrate first"):
        th.Ensemble(pair, combine="p-values").score(rows)
