"""How often scoring looks at its numbers: a look makes a device wait for all that was asked of it before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import theodolite as th
from synthetic import make_problem
from theodolite.core.arrays import row_maxima
from theodolite.core.errors import InputError

LOOKS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal")


class Looks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that need the numbers themselves."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: int = 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> object:
        self.count += func.overloadpacket.__name__ in LOOKS
        return func(*args, **(kwargs or {}))


def looks(detector: th.Detector, rows: Tensor, logits: Tensor | None = None) -> int:
    seen = Looks()
    with seen:
        detector.score(rows, logits)
    return seen.count


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.detectors._base._TILE_ENTRIES_CPU", 2**6)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "detector",
    [th.ORA(), th.ORA(metric="mahalanobis"), th.ORA(aggregate="mean"), th.FDBD(), th.RelativeEnergy()],
    ids=repr,
)
@pytest.mark.parametrize("logits", [False, True], ids=["features", "logits"])
def test_a_tile_is_not_looked_at(detector: th.Detector, *, logits: bool) -> None:
    problem = make_problem(seed=0)
    detector.fit(problem.train, problem.labels, head=problem.head)
    rows = problem.test.repeat(40, 1)
    given = problem.head(rows) if logits else None
    few, many = rows[:3], rows
    assert len(many) > 10 * detector._tile_rows(many.device)
    assert looks(detector, many, given) == looks(detector, few, given if given is None else given[:3])


@pytest.mark.usefixtures("small_tiles")
def test_a_block_of_a_pass_is_not_looked_at() -> None:
    problem = make_problem(seed=0)
    detectors: list[th.Detector] = [th.ORA(), th.FDBD(), th.RelativeEnergy()]
    th.fit_many(detectors, problem.train, problem.labels, head=problem.head)
    counts = []
    for rows in (problem.test[:3], problem.test.repeat(40, 1)):
        seen = Looks()
        with seen:
            th.score_many(detectors, rows)
        counts.append(seen.count)
    assert counts[0] == counts[1]


def test_looks_are_counted() -> None:
    """The count can fail: a look for each tile is seen."""
    seen = Looks()
    with seen:
        for part in torch.split(torch.ones(8), 2):
            bool(part.all())
    assert seen.count == 4


@given(
    place=st.integers(0, 7),
    column=st.integers(0, 3),
    value=st.sampled_from([torch.nan, torch.inf, -torch.inf]),
    where=st.sampled_from(["features", "logits"]),
    double=st.booleans(),
    kind=st.sampled_from([th.ORA, lambda: th.ORA(metric="mahalanobis"), th.RelativeEnergy]),
)
def test_what_is_no_number_is_refused_without_a_look_at_it(
    place: int, column: int, value: float, where: str, double: bool, kind: Callable[[], th.Detector]
) -> None:
    """These scores sum nothing up to see it: such a row cannot get a finite score."""
    problem = make_problem(seed=1)
    detector = kind().fit(problem.train, problem.labels, head=problem.head)
    rows = problem.test[:8].double() if double else problem.test[:8].float()
    logits = problem.head(rows)
    (rows if where == "features" else logits)[place, column] = value
    with pytest.raises(InputError, match=f"{where} hold NaN or infinity in row {place}"):
        detector.score(rows, logits)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_no_numbers_are_seen_at_the_mean_itself(value: float) -> None:
    """There the deviation is 0, and a score of 0 would hide them."""
    head = th.Head(torch.eye(3))
    rows = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    detector = th.RelativeEnergy().fit(torch.cat([rows, -rows]), head=head)
    logits = torch.zeros(1, 3)
    assert float(detector.score(torch.zeros(1, 3), logits)[0]) == 0
    logits[0, 1] = value
    with pytest.raises(InputError, match="logits hold NaN or infinity in row 0"):
        detector.score(torch.zeros(1, 3), logits)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1, 2, 37, 1_000]))
def test_row_maxima_are_those_of_argmax(seed: int, levels: int, columns: int) -> None:
    """Few levels make many ties: the first of equal columns is meant, as by `argmax`."""
    rng = torch.Generator().manual_seed(seed)
    for rows in (1, 40, 2**15 // columns):
        values = torch.randint(-levels, levels + 1, (rows, columns), generator=rng).float()
        largest, places = row_maxima(values)
        assert torch.equal(places, values.argmax(dim=1))
        assert torch.equal(largest[:, 0], values.amax(dim=1))
