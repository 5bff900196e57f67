"""The state of a fitted detector is its own: moves, refused fits and shared parts leave it alone."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import theodolite as th
from synthetic import Problem, make_problem
from theodolite.core.errors import InputError, NotFittedError
from theodolite.reference.reference import Reference

pytestmark = pytest.mark.usefixtures("few_waves")

every_detector = pytest.mark.parametrize("name", th.list_detectors())


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make_problem()


@pytest.fixture(scope="module")
def other() -> Problem:
    return make_problem(seed=7)


def fitted(name: str, problem: Problem, **options: object) -> th.Detector:
    return th.create(name, **options).fit(problem.train, problem.labels, head=problem.head)


# ---------------------------------------------------------------------- moves and copies


@every_detector
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_change_of_precision_changes_no_score(name: str, dtype: torch.dtype, problem: Problem) -> None:
    """Statistics keep the precision that the score needs, and the head is nobody else's."""
    detector, neighbour = fitted(name, problem), fitted("energy", problem)
    before, beside = detector.score(problem.test), neighbour.score(problem.test)
    detector.to(dtype)
    assert torch.equal(detector.score(problem.test), before)
    assert torch.equal(neighbour.score(problem.test), beside)
    assert problem.head.weight.dtype == torch.float32


@every_detector
def test_a_loaded_state_is_the_other_detector(name: str, problem: Problem, other: Problem) -> None:
    # Otherwise the data decides their sizes.
    options = {"dimension": 10} if name in ("neco", "cop", "corp") else {}
    one, two = fitted(name, problem, **options), fitted(name, other, **options)
    neighbour = fitted("energy", problem)
    beside = neighbour.score(problem.test)
    one.load_state_dict(two.state_dict())
    torch.testing.assert_close(one.score(problem.test), two.score(problem.test))
    assert torch.equal(neighbour.score(problem.test), beside), "heads are not shared"


@pytest.mark.parametrize("name", ["mds", "rmds", "knn", "ora", "fdbd", "distance", "relative-energy"])
def test_a_state_is_loaded_into_one_detector_alone(name: str, problem: Problem, other: Problem) -> None:
    """Detectors fitted together share statistics, and the user's head, until one of them changes."""
    options = {"metric": "mahalanobis"} if name in ("ora", "fdbd", "distance") else {}
    first, second = th.create(name, **options), th.create(name, **options)
    th.fit_many([first, second], problem.train, problem.labels, head=problem.head)
    before, weight = second.score(problem.test), problem.head.weight.clone()
    first.load_state_dict(fitted(name, other, **options).state_dict())
    second.to("cpu")
    assert torch.equal(second.score(problem.test), before)
    assert torch.equal(problem.head.weight, weight)


def test_the_same_detector_twice_is_fitted_once(problem: Problem) -> None:
    detector, told = th.MDS(shaping="react:90"), []
    zeros = torch.zeros_like(problem.labels)
    th.fit_many(
        [detector, detector], problem.train, zeros, head=problem.head, on_refusal=lambda *r: told.append(r)
    )
    assert len(told) == 1


@every_detector
def test_copies_and_pickles_score_the_same(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    scores = detector.score(problem.test)
    for twin in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        torch.testing.assert_close(twin.score(problem.test), scores)


@every_detector
def test_inference_mode_leaves_no_trace(name: str, problem: Problem) -> None:
    detector = fitted(name, problem)
    with torch.inference_mode():
        inside = detector.score(problem.test)
    torch.testing.assert_close(detector.score(problem.test), inside.clone())


# ---------------------------------------------------------------------- refused fits


@every_detector
def test_a_refused_fit_leaves_the_detector_as_it_was(name: str, problem: Problem, other: Problem) -> None:
    detector = fitted(name, problem, shaping="react:80")
    before = detector.score(problem.test)
    bad = other.train.clone()
    bad[200, 3] = torch.nan
    with pytest.raises(InputError, match="row 200"):
        detector.fit(bad, other.labels, head=other.head)
    assert torch.equal(detector.score(problem.test), before)


def test_a_fit_refused_half_way_leaves_the_detector_as_it_was(problem: Problem, other: Problem) -> None:
    ora = th.ORA(centre=3).fit(problem.train, problem.labels, head=problem.head)
    before = ora.score(problem.test)
    without = other.labels != 3
    with pytest.raises(InputError, match="no sample of class 3"):
        ora.fit(other.train[without], other.labels[without], head=other.head)
    assert torch.equal(ora.score(problem.test), before)
    ssd = th.SSDPlus(memory_limit=0)
    with pytest.raises(InputError, match="memory_limit"):
        ssd.fit(problem.train, problem.labels)
    with pytest.raises(NotFittedError):
        ssd.score(problem.test)


# ---------------------------------------------------------------------- shared parts


def test_one_shaping_in_two_detectors(problem: Problem) -> None:
    shaping = th.ReAct(percentile=80)
    first = th.Energy(shaping=shaping).fit(problem.train, head=problem.head)
    before = first.score(problem.test)
    th.FDBD(shaping=shaping).fit(3 * problem.train, head=problem.head)
    assert torch.equal(first.score(problem.test), before)


@every_detector
def test_parts_of_one_class_each_merge_to_the_whole(name: str, problem: Problem) -> None:
    detector, ids = th.create(name), torch.arange(len(problem.train))
    parts = [
        detector.collect(problem.train[rows], problem.labels[rows], head=problem.head, ids=ids[rows])
        for rows in (problem.labels == label for label in range(6))
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    merged = detector.fit(whole).score(problem.test.double())
    expected = fitted(name, problem).score(problem.test.double())
    torch.testing.assert_close(merged, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


def test_react_can_be_fitted_in_parts(problem: Problem) -> None:
    halves = (slice(0, 150), slice(150, None))
    unlearnt = th.ORA(shaping="react:80")
    with pytest.raises(NotFittedError, match=r"ReAct\(percentile=80\).fit"):
        unlearnt.collect(problem.train, head=problem.head)
    shaping = th.ReAct(percentile=80).fit(problem.train[half] for half in halves)
    detector = th.ORA(shaping=shaping)
    first, second = (detector.collect(problem.train[half], head=problem.head) for half in halves)
    merged = detector.fit(first + second).score(problem.test)
    batches = [problem.train[half] for half in halves]
    torch.testing.assert_close(
        merged, th.ORA(shaping="react:80").fit(batches, head=problem.head).score(problem.test)
    )


def test_a_reference_must_belong_to_the_detector(problem: Problem) -> None:
    data = (problem.train, problem.labels)
    headless = th.ORA().collect(problem.train)
    torch.testing.assert_close(
        th.ORA().fit(headless, head=problem.head).score(problem.test),
        fitted("ora", problem).score(problem.test),
    )
    with pytest.raises(InputError, match="collected with another head"):
        th.ORA().fit(th.ORA().collect(problem.train, head=problem.head), head=make_problem(seed=3).head)
    with pytest.raises(InputError, match="collect it with the cosine head"):
        th.ORA().fit(headless, head=th.Head.cosine(problem.head.weight))
    drawn = th.KNN(fraction=0.5, seed=0).collect(*data, head=problem.head)
    with pytest.raises(InputError, match="drawn with seed 0, KNN asks for seed 7"):
        th.KNN(fraction=0.5, seed=7).fit(drawn)
    low, high = (
        th.Energy(shaping="react:80").fit(scale * problem.train, head=problem.head) for scale in (1, 3)
    )
    seen = th.ORA(shaping=low.shaping).collect(problem.train, head=problem.head)
    with pytest.raises(InputError, match="the reference holds statistics of 'react:80 at"):
        th.ORA(shaping=high.shaping).fit(seen)
    linear = Reference.empty(problem.head)
    cosine = Reference.empty(th.Head(problem.head.weight, problem.head.bias, unit_features=True))
    with pytest.raises(InputError, match="different heads"):
        linear + cosine


# ---------------------------------------------------------------------- numbers at the edge


@pytest.mark.parametrize("name", ["fdbd", "relative-energy", "nci", "ora", "energy"])
def test_float32_never_overflows_silently(name: str, problem: Problem) -> None:
    head = th.Head(problem.head.weight)
    detector = th.create(name).fit(problem.train, problem.labels, head=head)
    huge = 1e20 * problem.test[:20]
    expected = detector.score(huge.double()).float()
    assert bool((expected != 0).any())
    torch.testing.assert_close(detector.score(huge), expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(
        detector.score(huge.bfloat16()), detector.score(huge.bfloat16().double()).float(), rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("which", range(6))
def test_ssd_leaves_out_a_class_of_equal_samples(which: int, problem: Problem) -> None:
    rows = problem.labels != which
    twins = problem.train[problem.labels == which][:1].repeat(2, 1)
    train = torch.cat([problem.train[rows], twins])
    labels = torch.cat([problem.labels[rows], torch.full((2,), which)])
    scores = th.SSDPlus().fit(train, labels).score(problem.test)
    assert len(set(scores.tolist())) == len(problem.test)
    with pytest.raises(InputError, match="in no class do two samples differ"):
        th.SSDPlus().fit(torch.cat([twins, twins + 1]), torch.tensor([0, 0, 1, 1]))


def test_vim_takes_rounding_for_nothing() -> None:
    problem = make_problem(width=64, rows=24)
    vim = th.ViM().fit(problem.train, problem.labels, head=problem.head)
    energy = th.Energy().fit(head=problem.head)
    torch.testing.assert_close(vim.score(problem.test), energy.score(problem.test))


def test_a_constant_unit_says_nothing(problem: Problem) -> None:
    train, test = problem.train.double(), problem.test.double()
    train[:, 7] = test[:, 7] = 0.1
    detector = th.NECO().fit(train, problem.labels, head=problem.head)
    moved = test.clone()
    moved[:, 7] += 1e-6
    torch.testing.assert_close(detector.score(moved), detector.score(test), rtol=1e-4, atol=1e-4)


def test_labels_without_a_head_have_a_limit(problem: Problem) -> None:
    for name in ("pcos", "knn"):
        with pytest.raises(InputError, match=r"labels must lie in 0\.\.999999"):
            th.create(name).fit(problem.train, problem.labels + 10**10)


@pytest.mark.parametrize("dtype", [">f4", ">f8", np.longdouble])
def test_arrays_of_foreign_makes(dtype: str, problem: Problem) -> None:
    rows = (10 * problem.test.numpy()).round()
    detector = fitted("ora", problem)
    np.testing.assert_allclose(detector.score(rows.astype(dtype)), detector.score(rows), rtol=1e-5)


def test_options_may_be_numpy_numbers(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("knn") / "knn.safetensors"
    fitted("knn", problem, k=np.int64(5)).save(path)
    assert th.load(path).options()["k"] == 5
