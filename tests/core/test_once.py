"""Shared work: the same only where function, rows and fitted numbers are the same, and nobody wrote to it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from theodolite.core.alike import Alike, ByContent, Untold
from theodolite.core.once import Pass, kept, kept_like, once
from theodolite.detectors.shaping import ReAct, Scale
from theodolite.reference.head import Head

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


class Pair(ByContent):
    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    @property
    def content(self) -> tuple[Tensor, ...]:
        return self.tensors


class Other(Pair):
    """Another kind of thing."""


def times(rows: Tensor, factor: Tensor) -> Tensor:
    CALLS.append("times")
    return rows * factor


def doubled(fitted: Tensor) -> Tensor:
    CALLS.append("doubled")
    return 2 * fitted


def both(rows: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    CALLS.append("both")
    return rows + 1, once(times, rows, factor)


def test_alone_every_ask_is_worked() -> None:
    rows, factor = torch.ones(2, 3), torch.full((3,), 2.0)
    assert once(times, rows, factor) is not once(times, rows, factor)
    kept(doubled, factor)
    assert CALLS == ["times", "times", "doubled"]


def test_in_a_pass_the_same_work_is_done_once() -> None:
    rows, factor = torch.ones(2, 3), torch.full((3,), 2.0)
    passing = Pass()
    with passing.asking(0):
        first = once(times, rows, factor)
    with passing.asking(1):
        assert once(times, rows, factor.clone()) is first
        assert once(times, rows, factor + 1) is not first
        assert once(times, rows.clone(), factor) is not first
    assert CALLS == ["times"] * 3
    once(times, rows, factor)
    assert len(CALLS) == 4


def test_work_on_rows_is_forgotten_and_work_on_fitted_numbers_kept() -> None:
    rows, factor = torch.ones(2, 3), torch.full((3,), 2.0)
    passing = Pass()
    for _ in range(2):
        with passing.asking(0):
            once(times, rows, factor)
            kept(doubled, factor)
        passing.forget()
    assert CALLS == ["times", "doubled", "times"]
    assert passing._of_rows == {}


def test_what_was_written_to_is_worked_again() -> None:
    rows, factor = torch.ones(2, 3), torch.full((3,), 2.0)
    with Pass().asking(0):
        once(times, rows, factor).mul_(100)
        assert float(once(times, rows, factor).sum()) == 12
        _, inner = once(both, rows, factor)
        inner.zero_()
        assert float(once(both, rows, factor)[1].sum()) == 12
        rows.add_(1)
        assert float(once(times, rows, factor).sum()) == 24
        factor.add_(1)
        assert float(once(times, rows, factor).sum()) == 36


def test_a_changed_tensor_is_no_longer_what_it_was_compared_with() -> None:
    """A first tensor changes; one with its new numbers must not be taken for what it was."""
    first, second = torch.tensor([1.0]), torch.tensor([2.0])
    with Pass().asking(0):
        assert float(kept(doubled, first)) == 2
        first.add_(1)
        assert float(kept(doubled, second)) == 4
        assert float(kept(doubled, first)) == 4


def test_inference_tensors_are_never_shared() -> None:
    with torch.inference_mode():
        factor, rows = torch.full((3,), 2.0), torch.ones(2, 3)
        inferred = torch.ones(2, 3)
    with Pass().asking(0):
        once(times, torch.ones(2, 3), factor)
        once(times, inferred, torch.ones(3))
        kept(doubled, factor)
        kept(doubled, factor)
    assert len(CALLS) == 4
    del rows


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([torch.nan]), torch.tensor([torch.nan]), True),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([[1.0, 1.0]]), torch.tensor([1.0, 1.0]), False),
        (torch.ones(3, 2).T, torch.ones(3, 2).T, False),
        (Head(torch.eye(2)), Head(torch.eye(2)), True),
        (Head(torch.eye(2)), Head(torch.eye(2), torch.tensor([0.0, 1e-30])), False),
        (Head(torch.eye(2)), Head(torch.eye(2), unit_features=True), False),
        (Scale(percentile=85.0), Scale(percentile=85.0), True),
        (Scale(percentile=85.0), Scale(percentile=86.0), False),
        (1, 1.0, False),
        (Pair(torch.ones(2), torch.zeros(3)), Pair(torch.ones(2), torch.zeros(3)), True),
        (Pair(torch.ones(2), torch.zeros(3)), Pair(torch.ones(2), torch.ones(3)), False),
        (Pair(torch.ones(2), torch.zeros(3)), Other(torch.ones(2), torch.zeros(3)), False),
    ],
)
def test_things_are_told_by_their_content(one: object, other: object, same: bool) -> None:
    alike = Alike()
    assert (alike.key(one) == alike.key(other)) is same
    assert alike.key(one) == alike.key(one)


def test_shapings_are_told_by_what_they_learnt() -> None:
    one = ReAct(percentile=80).fit([torch.arange(10.0)[None]])
    other = ReAct(percentile=80).fit([torch.arange(20.0)[None]])
    alike = Alike()
    assert alike.work(one) == alike.work(copy.deepcopy(one))
    assert alike.work(one) != alike.work(other)
    assert alike.work(one) != alike.work(ReAct(percentile=80))


def test_modules_with_more_than_plain_attributes_cannot_be_told() -> None:
    listed, hooked = Head(torch.eye(2)), Head(torch.eye(2))
    listed.table = [1]  # type: ignore[assignment]
    hooked.register_forward_hook(lambda *_: None)
    for module in (listed, hooked, nn.Linear(2, 2), nn.Sequential(nn.ReLU())):
        with pytest.raises(Untold):
            Alike().work(module)


def test_seconds_of_shared_work_are_nobodys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that moves by one with each look: of `both` and the work inside it, all asked for twice."""
    ticks = iter(range(1000))
    monkeypatch.setattr("theodolite.core.once.time.perf_counter", lambda: float(next(ticks)))
    rows, factor = torch.ones(2, 3), torch.full((3,), 2.0)
    passing = Pass()
    for asker in (0, 1):
        with passing.asking(asker):
            once(both, rows, factor)
    with passing.asking(2):
        once(times, rows, factor + 1)
    passing.forget()
    # `both` has two seconds of its own, and one of `times` inside it.
    assert passing.shared_seconds == 3
    # Each has one before and one after what it asks for; the second asks for nothing that is worked.
    assert passing.seconds == {0: 2, 1: 1, 2: 3}


def test_fitted_numbers_are_cast_once() -> None:
    factor = torch.ones(3, dtype=torch.float64)
    with Pass().asking(0):
        one, other = (kept_like(factor, torch.ones(1)) for _ in range(2))
        assert one is other
        assert one.dtype == torch.float32
