"""Our scores of answers against pytorch-ood's: what is equal, the factor, and what differs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import theodolite as th
from synthetic import Problem, make_problem
from theodolite.core.compat import import_torchvision

pytestmark = pytest.mark.peers
import_torchvision()  # pytorch-ood imports it, and it may need help to load
ood = pytest.importorskip("pytorch_ood.detector", reason="make test-peers installs it")

CLASSES = 6


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A ninth of the labels are others: the head is wrong about them."""
    plain = make_problem(width=32, classes=CLASSES, rows=600, seed=4)
    labels = plain.labels.clone()
    labels[::9] = (labels[::9] + 1) % CLASSES
    return Problem(plain.head, plain.train, labels, plain.test, plain.ood)


def linear(head: th.Head) -> nn.Linear:
    layer = nn.Linear(head.width, head.classes)
    layer.weight.data, layer.bias.data = head.weight.clone(), head.bias.clone()
    return layer


def klm(problem: Problem, rows: Tensor) -> Tensor:
    theirs = ood.KLMatching(None).fit_logits(problem.head(problem.train), problem.labels)
    result: Tensor = theirs.predict_logits(problem.head(rows))
    return result


def openmax(problem: Problem, rows: Tensor) -> Tensor:
    """Theirs is fitted on whatever it is given: the paper's means and tails are of rows answered right.

    In float64: it adds 10,000 to distances, which leaves float32 three digits of them. Theirs is P(unknown),
    ours the log-odds of the known.
    """
    logits = problem.head(problem.train.double())
    right = logits.argmax(1) == problem.labels
    theirs = ood.OpenMax(None, tailsize=25, alpha=4).fit_logits(logits[right], problem.labels[right])
    unknown: Tensor = theirs.predict_logits(problem.head(rows.double()))
    return -torch.logit(unknown)


def cooled(problem: Problem) -> th.Head:
    """A head whose probabilities stay within what their GEN does not clamp."""
    return th.Head(problem.head.weight / 3, problem.head.bias / 3)


def of_features(make: Callable[[th.Head], object]) -> Callable[[Problem, Tensor], Tensor]:
    def scores(problem: Problem, rows: Tensor) -> Tensor:
        detector = make(problem.head)
        detector.fit_features(problem.train, problem.labels)  # type: ignore[attr-defined]
        result: Tensor = detector.predict_features(rows)  # type: ignore[attr-defined]
        return result

    return scores


def gradient(problem: Problem, rows: Tensor) -> Tensor:
    result: Tensor = ood.GradNorm(linear(problem.head), lambda name: name == "weight").predict(rows)
    return result


# ours = factor · theirs, to the tolerance of the typical score.
PEERS: dict[str, tuple[th.Detector, Callable[[Problem, Tensor], Tensor], float, float]] = {
    "entropy": (th.Entropy(), lambda p, rows: ood.Entropy.score(p.head(rows)), -1, 1e-5),
    # Their mean over the M largest is a sum here.
    "gen of three": (th.GEN(gamma=0.4, top=3), lambda p, rows: ood.GEN.score(p.head(rows), 0.4, 3), -3, 1e-5),
    "klm": (th.KLM(), klm, -1, 1e-4),
    "she": (th.SHE(), of_features(lambda head: ood.SHE(None, linear(head))), -1, 1e-5),
    "dice": (th.DICE(percentile=70), of_features(lambda h: ood.DICE(None, h.weight, h.bias, 0.7)), -1, 1e-5),
    "lts": (th.LTS(), lambda p, rows: ood.LTS(None, linear(p.head)).predict_features(rows), -1, 1e-5),
    # Their loss is the mean over the classes, the authors' the sum.
    "gradnorm": (th.GradNorm(), gradient, -CLASSES, 1e-5),
    "openmax": (th.OpenMax(tail=25, alpha=4), openmax, 1, 1e-4),
}


@pytest.mark.parametrize("name", PEERS)
def test_equal_up_to_the_stated_factor(name: str, problem: Problem) -> None:
    ours, theirs, factor, tolerance = PEERS[name]
    rows = torch.cat([problem.test, problem.ood])
    found = ours.fit(problem.train, problem.labels, head=problem.head).score(rows).double().numpy()
    expected = factor * theirs(problem, rows).detach().double().numpy()
    assert np.abs(found - expected).max() / np.abs(found).mean() < tolerance


def test_gen_of_all_classes_where_theirs_clamps_nothing(problem: Problem) -> None:
    head, rows = cooled(problem), torch.cat([problem.test, problem.ood])
    assert float(head(rows).softmax(1).min()) > 1e-7
    found = th.GEN().fit(head=head).score(rows)
    torch.testing.assert_close(found, -CLASSES * ood.GEN.score(head(rows)), rtol=1e-5, atol=0)


def test_temperature_scaling_reaches_ours_if_it_is_let_run(problem: Problem) -> None:
    """Theirs is fifty steps of a hundredth from T = 1, ours the minimum: theirs is never likelier."""
    ours = th.TempScale().fit(problem.train, problem.labels, head=problem.head)
    logits = problem.head(problem.train)
    theirs = ood.TemperatureScaling(None)
    theirs.fit_logits(logits, problem.labels)
    best, reached = float(ours.temperature), float(theirs.t.detach())

    def loss(temperature: float) -> float:
        return float(nn.functional.cross_entropy(logits.double() / temperature, problem.labels))

    assert loss(best) <= loss(reached)
    for _ in range(60):
        theirs.fit_logits(logits, problem.labels)
    assert float(theirs.t.detach()) == pytest.approx(best, rel=1e-2)
    rows = problem.test
    theirs.t.data.fill_(best)
    expected = -theirs.predict_logits(problem.head(rows)).detach()
    torch.testing.assert_close(ours.score(rows).exp(), expected, rtol=1e-5, atol=0)


def test_where_theirs_clamps_or_ends_in_nan(problem: Problem) -> None:
    """Answers with odds of e^−30 and e^−60 are one to their clamp at 1e-7; a row of zeros has no LTS."""
    head = th.Head(torch.tensor([[1.0], [0.0]]))
    rows = torch.tensor([[30.0], [60.0]])
    for ours, theirs in ((th.GEN(), ood.GEN.score), (th.Entropy(), ood.Entropy.score)):
        first, second = theirs(head(rows)).tolist()
        assert first == second
        first, second = ours.fit(head=head).score(rows).tolist()
        assert first < second
    nothing = torch.zeros(1, problem.head.width)
    assert torch.isnan(ood.LTS(None, linear(problem.head)).predict_features(nothing)).all()
    assert torch.isfinite(th.LTS().fit(head=problem.head).score(nothing)).all()


def test_what_theirs_refuses(problem: Problem) -> None:
    """A class of which no row is answered right."""
    bias = problem.head.bias.clone()
    bias[2] = -100.0
    head = th.Head(problem.head.weight, bias)
    with pytest.raises(ValueError, match="No correct predictions for class 2"):
        ood.SHE(None, linear(head)).fit_features(problem.train, problem.labels)
    found = th.SHE().fit(problem.train, problem.labels, head=head).score(problem.test)
    assert torch.isfinite(found).all()
