"""Scores in one pass are the scores alone: every detector, precision and kind of array, and every refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import theodolite as th
from made_stores import store_of
from synthetic import Problem, make_problem
from theodolite.core.errors import InputError, NotFittedError
from theodolite.detectors import _base, mds
from theodolite.detectors._together import Together

pytestmark = pytest.mark.usefixtures("few_waves")

SPECS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((name, {}) for name in th.list_detectors()),
    *((name, {"shaping": "react:80"}) for name in ("ora", "mds", "maha+", "energy", "vim", "knn")),
    *((name, {"shaping": "ash-s:35"}) for name in ("ora", "pcos")),
    ("ora", {"metric": "mahalanobis"}),
    ("ora", {"metric": "mahalanobis", "centre": "sum-extremes"}),
    ("ora", {"centre": "predicted"}),
    ("ora", {"centre": "sum-classes"}),
    ("ora", {"aggregate": "mean"}),
    ("fdbd", {"metric": "mahalanobis"}),
    ("distance", {"metric": "mahalanobis", "shrinkage": "none"}),
    ("energy", {"temperature": 2.0}),
    ("mds", {}),
)


class Gap(th.Detector):
    """A score of a user's own, with nothing but `_score`."""

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        first, second = logits.topk(2, dim=1).values.unbind(1)
        return first - second


class Careless(th.Detector):
    """Writes to all that it is given."""

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        return logits.exp_().sum(dim=1) + features.mul_(0).sum(dim=1)


class Uncounted(th.Detector):
    """A softmax in NumPy, in place: PyTorch does not count such writes."""

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        raised = logits.numpy()
        raised -= raised.max(axis=1, keepdims=True)
        np.exp(raised, out=raised)
        return torch.from_numpy(1 / raised.sum(axis=1))


class Seen(th.Detector):
    """Sees its rows in a way of its own."""

    def _checked(self, features: Any) -> Tensor:
        return 3 * super()._checked(features)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return features.sum(dim=1)


class Turned(th.Detector):
    """Does something to the scores."""

    def _scores(self, *given: Any, **named: Any) -> Tensor:
        return -super()._scores(*given, **named)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return logits.amax(dim=1)


class Own(th.Detector):
    """Has a `score` of its own."""

    def score(self, features: Any, logits: Any = None) -> Any:
        return -super().score(features, logits)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return logits.amin(dim=1)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem()


def fitted(problem: Problem, specs: Sequence[tuple[str, dict[str, Any]]] = SPECS) -> list[th.Detector]:
    detectors = [th.create(name, **options) for name, options in specs]
    th.fit_many(detectors, problem.train, problem.labels, head=problem.head)
    return detectors


@pytest.fixture(scope="module")
def detectors(problem: Problem) -> list[th.Detector]:
    return fitted(problem)


def rows_of(problem: Problem) -> Tensor:
    """Ordinary rows, and those that float32 cannot resolve: near the mean, far away, zero, of the bank."""
    mean = problem.train.double().mean(dim=0).float()
    odd = torch.stack([mean, mean + 1e-6, 1e25 * problem.test[0], 1e-30 * problem.test[1], 0 * mean])
    return torch.cat([problem.test, odd, problem.train[:3], problem.ood])


def assert_same(found: Sequence[Any], detectors: Sequence[th.Detector], *given: Any) -> None:
    for detector, scores in zip(detectors, found, strict=True):
        expected = detector.score(*given)
        assert type(scores) is type(expected)
        assert scores.dtype == expected.dtype
        torch.testing.assert_close(
            torch.as_tensor(scores), torch.as_tensor(expected), rtol=0, atol=0, msg=repr(detector)
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("logits_given", [False, True])
def test_together_is_alone_to_the_bit(
    detectors: list[th.Detector], problem: Problem, dtype: torch.dtype, logits_given: bool
) -> None:
    rows = (problem.test if dtype == torch.float16 else rows_of(problem)).to(dtype)
    logits = problem.head(rows.float() if dtype == torch.float16 else rows) if logits_given else None
    assert_same(th.score_many(detectors, rows, logits), detectors, rows, logits)


@pytest.mark.parametrize("logits_given", [False, True])
def test_numpy_in_numpy_out(detectors: list[th.Detector], problem: Problem, logits_given: bool) -> None:
    rows = rows_of(problem).numpy()
    logits = problem.head(rows_of(problem)).numpy() if logits_given else None
    found = th.score_many(detectors, rows, logits)
    assert all(isinstance(scores, np.ndarray) for scores in found)
    assert_same(found, detectors, rows, logits)


def test_in_any_order_and_more_than_once(detectors: list[th.Detector], problem: Problem) -> None:
    mixed = [*detectors[::-1], *detectors[5:8]]
    assert_same(th.score_many(mixed, problem.test), mixed, problem.test)


def test_in_many_tiles(
    detectors: list[th.Detector], problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Detectors with tiles of their own among them: in pieces of another size, hence to rounding."""
    rows = rows_of(problem)
    expected = [detector.score(rows) for detector in detectors]
    monkeypatch.setattr(_base, "_TILE_ENTRIES_CPU", 24 * 12)
    monkeypatch.setattr("theodolite.detectors.csi.query_rows", lambda _: 20)
    monkeypatch.setattr("theodolite.detectors._banked.query_rows", lambda _: 7)
    for detector, scores, whole in zip(detectors, th.score_many(detectors, rows), expected, strict=True):
        usual = float(whole.abs().median())
        torch.testing.assert_close(scores, whole, rtol=1e-5, atol=1e-5 * usual, msg=repr(detector))


def test_detectors_that_differ_share_nothing(problem: Problem) -> None:
    """Same classes, other data or another head: by name alone they would be the same."""
    other = make_problem(seed=1)
    nearly = th.Head(problem.head.weight, problem.head.bias + 1e-3)
    specs = [(name, options) for name, options in SPECS if name not in ("csi", "knn", "nnguide", "ssd+")]
    mixed = fitted(problem, specs)
    for head, data in ((other.head, other), (nearly, problem)):
        more = [th.create(name, **options) for name, options in specs]
        th.fit_many(more, data.train, data.labels, head=head)
        mixed += more
    assert_same(th.score_many(mixed, problem.test), mixed, problem.test)


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, calls: Counter[str]) -> None:
    work: Callable[..., Any] = getattr(owner, name)

    def counting(*given: Any) -> Any:
        calls[name] += 1
        return work(*given)

    counting.__name__ = name
    monkeypatch.setattr(owner, name, counting)


def test_products_are_worked_once(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for detectors that were fitted apart or come from files: what counts is that the numbers agree."""
    names = ("msp", "energy", "ora", "fdbd", "nci", "relative-energy", "vim", "neco", "nnguide")
    apart = [th.create(name).fit(problem.train, problem.labels, head=problem.head) for name in names]
    for name in ("mds", "rmds"):
        th.create(name).fit(problem.train, problem.labels, head=problem.head).save(tmp_path / name)
        apart.append(th.load(tmp_path / name))
    calls: Counter[str] = Counter()
    counted(monkeypatch, th.Head, "logits", calls)
    counted(monkeypatch, mds, "_nearest", calls)
    th.score_many(apart, problem.test)
    # One product of the rows, and one of the mean that NCI asks for.
    assert calls == {"logits": 2, "_nearest": 1}


# ---------------------------------------------------------------------- scores of users' own


def test_scores_of_users_own_are_what_they_are_alone(detectors: list[th.Detector], problem: Problem) -> None:
    kinds = (Gap, Own, Uncounted, Seen, Turned)
    made = [kind().fit(head=problem.head) for kind in kinds]
    expected = [one.score(problem.test) for one in (*made, *detectors)]
    for mixed in ([*made, *detectors], [*detectors, *made]):
        found = th.score_many(mixed, problem.test)
        if mixed[0] is not made[0]:
            found = found[len(detectors) :] + found[: len(detectors)]
        for scores, alone, one in zip(found, expected, (*made, *detectors), strict=True):
            assert torch.equal(scores, alone), repr(one)


def test_a_score_that_was_replaced_on_the_object_is_the_one(
    detectors: list[th.Detector], problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    energy = th.Energy().fit(head=problem.head)
    monkeypatch.setattr(energy, "score", lambda features, _=None: -features[:, 0])
    found = th.score_many([energy, *detectors[:3]], problem.test)
    assert torch.equal(found[0], -problem.test[:, 0])
    assert_same(found[1:], detectors[:3], problem.test)


def test_where_none_joins_each_is_scored_by_itself(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    counted(monkeypatch, Gap, "_score", calls)
    th.score_many([Gap().fit(head=problem.head)], problem.test)
    assert calls == {"_score": 1}


@pytest.mark.parametrize("logits_given", [False, True])
def test_a_score_that_works_in_place_spoils_nothing(
    detectors: list[th.Detector], problem: Problem, logits_given: bool
) -> None:
    rows = problem.test.half()  # of which every detector alone makes a copy, and of these logits too
    logits = problem.head(rows.float()).double() if logits_given else None
    careless = Careless().fit(head=problem.head)
    expected = [detector.score(rows, logits) for detector in (careless, *detectors)]
    for place in (0, 4, len(detectors)):
        mixed = [*detectors[:place], careless, *detectors[place:]]
        found = th.score_many(mixed, rows, logits)
        found.insert(0, found.pop(place))
        for scores, alone in zip(found, expected, strict=True):
            assert torch.equal(scores, alone)


def test_a_stored_bank_keeps_tiles_of_its_own(
    detectors: list[th.Detector], problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of(tmp_path / "store", problem.train, problem.labels, problem.head)
    stored = th.KNN(store=tmp_path / "store").fit()
    monkeypatch.setattr(_base, "_TILE_ENTRIES_CPU", 24 * 12)
    reads: Counter[str] = Counter()
    counted(monkeypatch, th.KNN, "_searched", reads)
    (first, *_) = th.score_many([stored, detectors[0]], problem.test)
    assert reads == {"_searched": 1}
    assert torch.equal(first, stored.score(problem.test))


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", ["msp", "mds", "knn"])
@pytest.mark.parametrize("in_logits", [False, True])
def test_rows_that_are_not_finite_are_refused_by_their_numbers(
    problem: Problem, name: str, in_logits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_base, "_TILE_ENTRIES_CPU", 16 * 12)
    both = fitted(problem, [(name, {}), ("ora", {})])
    rows, logits = problem.test.clone(), problem.head(problem.test)
    (logits if in_logits else rows)[[50, 51, 90], 2] = torch.nan
    refusals = []
    for detector in both:
        with pytest.raises(InputError) as alone:
            detector.score(rows, logits)
        refusals.append(str(alone.value))
    with pytest.raises(InputError) as refused:
        th.score_many(both, rows, logits)
    assert str(refused.value) in refusals
    assert all("rows 50, 51" in refusal for refusal in refusals)


def test_rows_without_a_score_are_refused(problem: Problem) -> None:
    both = fitted(problem, [("vim", {}), ("energy", {})])
    rows = problem.test.double()
    rows[7] *= 1e307
    for score in (both[0].score, lambda given: th.score_many(both, given)):
        with pytest.raises(InputError, match="ViM has no score for row 7"):
            score(rows)


def test_what_cannot_be_scored_says_why(detectors: list[th.Detector], problem: Problem) -> None:
    with pytest.raises(InputError, match="detectors is empty"):
        th.score_many([], problem.test)
    with pytest.raises(NotFittedError, match="MDS is not fitted"):
        th.score_many([detectors[0], th.MDS()], problem.test)
    with pytest.raises(InputError, match="features have width 47"):
        th.score_many(detectors, problem.test[:, :47])
    with pytest.raises(InputError, match="logits have 3 rows"):
        th.score_many(detectors, problem.test, problem.head(problem.test)[:3])
    narrow = th.MSP().fit(head=th.Head(torch.eye(4)))
    with pytest.raises(InputError, match="MSP was fitted on 4"):
        th.score_many([detectors[0], narrow], problem.test)


# ---------------------------------------------------------------------- a pass over batches


def test_a_pass_holds_no_rows_and_sees_a_new_fit(problem: Problem) -> None:
    other = make_problem(seed=1)
    pair = fitted(problem, [("mds", {}), ("rmds", {}), ("ora", {}), ("fdbd", {})])
    together = Together(pair)
    assert_same(together.score(problem.test), pair, problem.test)
    assert together._pass._of_rows == {}
    pair[1].fit(other.train, other.labels, head=other.head)
    assert_same(together.score(problem.test), pair, problem.test)
    pair[0].load_state_dict(pair[1].state_dict(), strict=False)
    pair[3].get_buffer("mean").add_(1)
    assert_same(together.score(problem.test), pair, problem.test)


def test_in_inference_mode(problem: Problem) -> None:
    with torch.inference_mode():
        pair = fitted(problem, [("mds", {}), ("rmds", {}), ("ora", {}), ("pcos", {})])
        rows = problem.test + 0
        found = th.score_many(pair, rows)
        assert_same(found, pair, rows)
    assert_same(th.score_many(pair, rows), pair, rows)


def test_seconds_are_counted_once(detectors: list[th.Detector], problem: Problem) -> None:
    together = Together(detectors)
    together.score(problem.test)
    assert together.shared_seconds > 0
    assert all(spent > 0 for spent in together.seconds)
