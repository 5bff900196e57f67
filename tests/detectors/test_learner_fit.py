"""`Learner.fit`, for fits in parts: what it reads is checked as features are, and as the head sees it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError
from theodolite.detectors.shaping import RAS, VRA, Learner, ReAct, VRAClip, VRAClipUnits

KINDS: list[type[Learner]] = [ReAct, VRA, VRAClip, VRAClipUnits, RAS]
PROBLEM = make_problem()
COSINE = th.Head(PROBLEM.head.weight, PROBLEM.head.bias, unit_features=True)


def learnt(shaping: Learner) -> list[torch.Tensor]:
    return [getattr(shaping, name) for name in shaping.learnt]


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_and_batches_of_either_kind(kind: type[Learner]) -> None:
    """An array is learnt from exactly, as by the fit of a detector; batches by what they count."""
    rows = PROBLEM.train
    whole = th.Energy(shaping=kind()).fit(rows, head=PROBLEM.head).shaping
    assert isinstance(whole, Learner)
    for features in (rows, rows.numpy()):
        torch.testing.assert_close(learnt(kind().fit(features)), learnt(whole), rtol=0, atol=0)
    parts = [rows[:100], rows[100:]]
    counted = learnt(kind().fit(parts))
    assert all(torch.equal(*pair) for pair in zip(learnt(kind().fit([rows])), counted, strict=True))
    for batches in ([part.numpy() for part in parts], [(part, None) for part in parts]):
        assert all(torch.equal(*pair) for pair in zip(learnt(kind().fit(batches)), counted, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_what_teaches_nothing_is_refused(kind: type[Learner]) -> None:
    broken = PROBLEM.train.clone()
    broken[3, 5] = torch.nan
    shaping = kind()
    for features in (broken, [PROBLEM.train, broken], broken.numpy()):
        with pytest.raises(InputError, match="NaN"):
            shaping.fit(features)
    for nothing in ([], PROBLEM.train[:0], np.zeros((0, 48), np.float32), [PROBLEM.train[:0]]):
        with pytest.raises(InputError, match=r"empty|no rows|at least one"):
            shaping.fit(nothing)
    assert not shaping.ready


@pytest.mark.parametrize("kind", KINDS)
def test_a_cosine_head_prepares_the_rows(kind: type[Learner]) -> None:
    rows = PROBLEM.train
    whole = th.Energy(shaping=kind()).fit(rows, head=COSINE).shaping
    assert isinstance(whole, Learner)
    shaping = kind().fit(rows, head=COSINE)
    torch.testing.assert_close(learnt(shaping), learnt(whole), rtol=0, atol=0)
    detector = th.KNN(shaping=shaping)
    detector.fit(detector.collect(rows, head=COSINE))
    with pytest.raises(InputError, match=r"of length 1, those of a cosine head, and is to .* any length"):
        detector.collect(rows, head=PROBLEM.head)
    plain = th.KNN(shaping=kind().fit(rows))
    with pytest.raises(InputError, match=r"from features of any length, and .* cosine head: learn it with"):
        plain.collect(rows, head=COSINE)
    plain.fit(rows, head=COSINE)  # learns anew
    plain.collect(rows, head=COSINE)
