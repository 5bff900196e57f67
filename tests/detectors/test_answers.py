"""Scores of what the head answers, on data where it is sometimes wrong, and at their edges."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import theodolite as th
from answer_oracles import ORACLES
from oracles import Scores
from synthetic import Problem, make_problem
from theodolite.core.errors import FittingWarning, InputError
from theodolite.detectors._weibull import SHIFT, at_most, fitted_tails, largest_of_each


@pytest.fixture(scope="module")
def mixed() -> Problem:
    """A seventh of the labels are others, and the head never answers 4."""
    plain = make_problem(width=20, classes=5, rows=500, seed=5)
    bias = plain.head.bias.clone()
    bias[4] = -50.0
    labels = plain.labels.clone()
    labels[::7] = (labels[::7] + 1) % 5
    return Problem(th.Head(plain.head.weight, bias), plain.train, labels, plain.test, plain.ood)


def known(problem: Problem) -> Scores:
    head = problem.head
    return Scores(
        head.weight.double().numpy(),
        head.bias.double().numpy(),
        problem.train.double().numpy(),
        problem.labels.numpy(),
    )


@pytest.mark.parametrize("name", ["tempscale", "klm", "she", "openmax"])
def test_rows_answered_wrong_count_as_the_formula_says(name: str, mixed: Problem) -> None:
    rows = torch.cat([mixed.test[:20], mixed.ood[:20]])
    if name in ("she", "openmax"):  # what they do with a class that is never answered is their own choice
        head = th.Head(mixed.head.weight, mixed.head.bias * (mixed.head.bias > -50))
        mixed = Problem(head, mixed.train, mixed.labels, mixed.test, mixed.ood)
    predicted = mixed.head(mixed.train).argmax(1)
    assert 0.5 < float((predicted == mixed.labels).double().mean()) < 0.9
    data = known(mixed)
    expected = np.array([ORACLES[name](data, row) for row in rows.double().numpy()])
    detector = th.create(name).fit(mixed.train, mixed.labels, head=mixed.head)
    for found, tolerance in ((detector.score(rows), 1e-5), (detector.score(rows.double()), 1e-8)):
        assert np.abs(found.double().numpy() - expected).max() / np.abs(expected).mean() < tolerance


# ---------------------------------------------------------------------- GradNorm


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_gradnorm_is_the_norm_of_the_gradient(temperature: float, mixed: Problem) -> None:
    """The authors' loss, differentiated: cross-entropy to a one for every class, one row at a time."""
    detector = th.GradNorm(temperature=temperature).fit(head=mixed.head)
    rows = mixed.test[:10].double()
    expected = []
    for row in rows:
        weight = mixed.head.weight.double().requires_grad_()
        logits = (row @ weight.T + mixed.head.bias.double()) / temperature
        (-logits.log_softmax(0)).sum().backward()
        assert weight.grad is not None
        expected.append(float(weight.grad.abs().sum()))
    np.testing.assert_allclose(detector.score(rows).numpy(), expected, rtol=1e-12)


# ---------------------------------------------------------------------- softmax scores keep their digits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [1.0, 17.0, 40.0, 200.0])
def test_certain_answers_are_told_apart(gap: float, dtype: torch.dtype) -> None:
    """Two classes, odds e^−gap: with 1 − p from p itself all of these beyond 17 would be one."""
    head = th.Head(torch.tensor([[1.0], [0.0]]))
    row = torch.full((1, 1), gap, dtype=dtype)
    odds = math.exp(-gap)
    over = math.log1p(odds)
    pq = math.exp(0.1 * (-gap - 2 * over))
    expected = {
        "entropy": -over - gap * odds / (1 + odds),
        "gen": -2 * pq,
        "tempscale": -over,
        "logitgap": gap,
    }
    if gap == 200 and dtype == torch.float32:
        del expected["entropy"], expected["tempscale"]  # below the numbers of float32
    train, labels = torch.tensor([[3.0], [-3.0]]), torch.tensor([0, 1])
    for name, value in expected.items():
        found = th.create(name).fit(train, labels, head=head).score(row)
        assert float(found) == pytest.approx(value, rel=2e-5 if dtype == torch.float32 else 1e-12), name


def test_gen_counts_the_largest_probabilities_alone(mixed: Problem) -> None:
    p = mixed.head(mixed.test.double()).softmax(1).sort(1, descending=True).values
    terms = p.pow(0.3) * (1 - p).pow(0.3)
    for top in (1, 2, 5, 100):
        found = th.GEN(gamma=0.3, top=top).fit(head=mixed.head).score(mixed.test.double())
        torch.testing.assert_close(found, -terms[:, :top].sum(1), rtol=1e-6, atol=1e-12)


def test_logitgap_averages_the_next_logits(mixed: Problem) -> None:
    logits = mixed.head(mixed.test.double()).sort(1, descending=True).values
    for top in (1, 3, 4, 50):
        found = th.LogitGap(top=top).fit(head=mixed.head).score(mixed.test.double())
        torch.testing.assert_close(found, logits[:, 0] - logits[:, 1 : top + 1].mean(1))


# ---------------------------------------------------------------------- DICE and LTS


@pytest.mark.parametrize("percentile", [0.0, 10.0, 33.3, 70.0, 90.0, 99.0])
def test_dice_keeps_what_lies_above_the_percentile(percentile: float, mixed: Problem) -> None:
    weight = mixed.head.weight.double().numpy()
    shares = weight * mixed.train.double().numpy().mean(axis=0)
    kept = np.where(shares > np.percentile(shares, percentile), weight, 0)
    logits = mixed.test.double().numpy() @ kept.T + mixed.head.bias.double().numpy()
    found = th.DICE(percentile=percentile).fit(mixed.train, head=mixed.head).score(mixed.test.double())
    np.testing.assert_allclose(found, np.logaddexp.reduce(logits, axis=1), rtol=1e-10)


def test_dice_without_a_head_or_weights_is_refused(mixed: Problem) -> None:
    with pytest.raises(InputError, match="DICE needs a head"):
        th.DICE().fit(mixed.train)
    with pytest.raises(InputError, match=r"percentile must lie in 0\.\.100, below 100, got 100"):
        th.DICE(percentile=100.0)


def test_lts_leaves_rows_without_activations_as_they_are(mixed: Problem) -> None:
    rows = torch.stack([torch.zeros(20), -torch.ones(20)])
    found = th.LTS().fit(head=mixed.head).score(rows)
    torch.testing.assert_close(found, mixed.head(rows).logsumexp(1))


# ---------------------------------------------------------------------- TempScale


def test_tempscale_says_that_it_learnt_nothing_where_all_is_right() -> None:
    problem = make_problem()
    with pytest.warns(FittingWarning, match="the head answers all 300 rows right"):
        detector = th.TempScale().fit(problem.train, problem.labels, head=problem.head)
    assert float(detector.temperature) == 1
    right = th.MSP().fit(head=problem.head).score(problem.test)
    torch.testing.assert_close(detector.score(problem.test).exp(), right)


def test_a_temperature_that_is_learnt_is_not_warned_of(mixed: Problem) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        detector = th.TempScale().fit(mixed.train, mixed.labels, head=mixed.head)
    assert float(detector.temperature) > 1.5  # labels were changed: the head is too sure


def test_labels_of_other_data_have_no_temperature(mixed: Problem) -> None:
    with pytest.raises(InputError, match="labels have no temperature"):
        th.TempScale().fit(mixed.train, mixed.head(mixed.train).argmin(1), head=mixed.head)


# ---------------------------------------------------------------------- classes without right answers


def test_she_gives_a_class_without_right_rows_the_mean_of_all_right_ones(mixed: Problem) -> None:
    detector = th.SHE().fit(mixed.train, mixed.labels, head=mixed.head)
    right = mixed.head(mixed.train).argmax(1) == mixed.labels
    torch.testing.assert_close(detector.patterns[4], mixed.train[right].double().mean(0))


def test_openmax_gives_what_a_class_without_right_rows_may_to_the_unknown(mixed: Problem) -> None:
    detector = th.OpenMax(alpha=1).fit(mixed.train, mixed.labels, head=mixed.head)
    assert detector.seen.tolist() == [True, True, True, True, False]
    row = 60 * torch.nn.functional.normalize(mixed.head.weight[4], dim=0)[None]
    logits = mixed.head(row)[0]
    assert int(logits.argmax()) == 4
    top = logits[4].clone()
    logits[4] = 0
    assert float(detector.score(row)) == pytest.approx(float(logits.logsumexp(0) - top), rel=1e-5)


@pytest.mark.parametrize("name", ["she", "openmax"])
def test_a_head_that_is_never_right_is_refused(name: str, mixed: Problem) -> None:
    wrong = (mixed.head(mixed.train).argmax(1) + 1) % 4
    with pytest.raises(InputError, match="right on none of the 500 rows"):
        th.create(name).fit(mixed.train, wrong, head=mixed.head)


@pytest.mark.parametrize("name", ["she", "openmax", "tempscale"])
def test_without_labels_they_are_refused(name: str, mixed: Problem) -> None:
    with pytest.raises(InputError, match=r"labels are missing: .* cannot be had without them"):
        th.create(name).fit(mixed.train, head=mixed.head)


def test_klm_needs_no_labels(mixed: Problem) -> None:
    alone = th.KLM().fit(mixed.train, head=mixed.head).score(mixed.test)
    assert torch.equal(alone, th.KLM().fit(mixed.train, mixed.labels, head=mixed.head).score(mixed.test))


@pytest.mark.parametrize("name", ["she", "openmax", "tempscale", "klm", "ora"])
def test_a_reference_without_the_head_has_no_answers(name: str, mixed: Problem) -> None:
    detector = th.ORA(aggregate="mean", class_weights="accuracy") if name == "ora" else th.create(name)
    reference = th.Reference.collect(mixed.train, mixed.labels, needs=detector.needs)
    with pytest.raises(InputError, match="collected without the head, whose answers"):
        detector.fit(reference, head=mixed.head)
    seen = th.Reference.collect(mixed.train, mixed.labels, needs=detector.needs, head=mixed.head)
    detector.fit(seen)


# ---------------------------------------------------------------------- the tails of OpenMax


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 60), st.floats(0.01, 1000.0))
def test_tails_have_the_highest_likelihood(seed: int, count: int, size: float) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scikit-learn brings it")
    distances = size * np.random.default_rng(seed).gamma(3.0, 1.0, count)
    tails = fitted_tails(torch.from_numpy(distances)[None])
    shape, scale = float(tails.shape), SHIFT * math.exp(float(tails.log_scale))
    shifted = distances - distances.min() + SHIFT

    def likelihood(shape: float, scale: float) -> float:
        return float(stats.weibull_min.logpdf(shifted, shape, 0, scale).sum())

    ours = likelihood(shape, scale)
    for by in (0.9, 0.99, 1.01, 1.1):
        assert likelihood(shape * by, scale) < ours
        assert likelihood(shape, scale * (1 + (by - 1) / shape)) < ours
    asked = torch.from_numpy(np.linspace(0, 2 * distances.max(), 50))
    found = at_most(asked, tails)
    expected = stats.weibull_min.cdf(asked.numpy() - distances.min() + SHIFT, shape, 0, scale)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_weibull_of_scipy_on_an_ordinary_tail() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scikit-learn brings it")
    distances = np.sort(np.random.default_rng(3).normal(8, 2, 400))[-20:]
    tails = fitted_tails(torch.from_numpy(distances)[None])
    shape, _, scale = stats.weibull_min.fit(distances - distances.min() + SHIFT, floc=0)
    assert float(tails.shape) == pytest.approx(shape, rel=1e-4)
    assert SHIFT * math.exp(float(tails.log_scale)) == pytest.approx(scale, rel=1e-7)


def test_the_largest_of_each_class() -> None:
    distances = torch.tensor([3.0, 1.0, 9.0, 4.0, 5.0, 2.0, 7.0], dtype=torch.float64)
    classes = torch.tensor([0, 0, 2, 0, 2, 2, 2])
    found = largest_of_each(distances, classes, 4, 3)
    wanted = [[4, 3, 1], [math.nan] * 3, [9, 7, 5], [math.nan] * 3]
    np.testing.assert_array_equal(found.numpy(), np.array(wanted))


def test_a_tail_without_spread_is_a_step() -> None:
    nan = math.nan
    tails = fitted_tails(
        torch.tensor([[2.0, 2.0, 2.0], [5.0, nan, nan], [nan, nan, nan]], dtype=torch.float64)
    )
    assert all(bool(torch.isfinite(part).all()) for part in tails)
    before, after = (at_most(tails.start + step, tails)[:2] for step in (-1e-3, 1e-3))
    assert float(before.max()) < 1e-6
    assert float(after.min()) > 1 - 1e-6


def test_openmax_of_a_share_of_the_rows(mixed: Problem) -> None:
    whole = th.OpenMax().fit(mixed.train, mixed.labels, head=mixed.head)
    share = th.OpenMax(fraction=0.5).fit(mixed.train, mixed.labels, head=mixed.head)
    torch.testing.assert_close(share.centres, whole.centres)
    assert bool((share.start <= whole.start)[:4].all())  # fewer rows, so the twentieth largest is smaller
    assert torch.isfinite(share.score(mixed.ood)).all()


def test_openmax_says_that_its_tails_are_all_the_rows_there_are(mixed: Problem) -> None:
    few = slice(0, 60)
    with pytest.warns(FittingWarning, match=r"20 largest distances .* 5 of 5 classes have no more rows"):
        th.OpenMax().fit(mixed.train[few], mixed.labels[few], head=mixed.head)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        th.OpenMax().fit(mixed.train, mixed.labels, head=mixed.head)
        th.OpenMax(tail=5).fit(mixed.train[few], mixed.labels[few], head=mixed.head)


@pytest.mark.parametrize("options", [{"tail": 0}, {"alpha": 0}, {"fraction": 0.0}, {"fraction": 1.5}])
def test_options_out_of_range_are_named(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        th.create("openmax", **options)


def test_more_options_out_of_range() -> None:
    for name, options in (
        ("gen", {"gamma": 0.0}),
        ("gen", {"top": 0}),
        ("logitgap", {"top": 0}),
        ("gradnorm", {"temperature": 0.0}),
        ("lts", {"percentile": 101.0}),
    ):
        with pytest.raises(InputError, match=next(iter(options))):
            th.create(name, **options)


def test_classes_out_of_the_tail_are_seen_from_afar(mixed: Problem) -> None:
    """Logits far beyond those of all ID rows are the unknown's, where they are positive."""
    detector = th.OpenMax().fit(mixed.train, mixed.labels, head=mixed.head)
    far: Tensor = 30 * mixed.ood[:20]
    assert float(detector.score(far).max()) < float(detector.score(mixed.test).median())
