"""ORA's options: the reduction that "auto" takes, the balanced centre, the authors' own programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oracles
import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError
from theodolite.geometry.aggregation import FEW_CLASSES


@pytest.mark.parametrize("classes", [3, FEW_CLASSES - 1, FEW_CLASSES, FEW_CLASSES + 1])
def test_auto_is_the_mean_below_the_stated_number_of_classes_and_the_maximum_from_there_on(
    classes: int,
) -> None:
    rng = torch.Generator().manual_seed(classes)
    head = th.Head(torch.randn(classes, 16, generator=rng), torch.randn(classes, generator=rng))
    train, test = torch.randn(50, 16, generator=rng), torch.randn(20, 16, generator=rng)
    taken = "mean" if classes < FEW_CLASSES else "max"
    auto, plain = (th.ORA(aggregate=name).fit(train, head=head) for name in ("auto", taken))
    torch.testing.assert_close(auto.score(test), plain.score(test), rtol=0, atol=0)
    assert auto.decided_by_one == (taken == "max")
    assert auto.options()["aggregate"] == "auto"


def test_auto_weighs_no_classes() -> None:
    with pytest.raises(InputError, match="class_weights weigh a mean"):
        th.ORA(aggregate="auto", class_weights="variance")


def test_a_detector_with_auto_comes_back_from_its_file(tmp_path: object) -> None:
    problem = make_problem()
    detector = th.ORA(aggregate="auto", centre="balanced").fit(
        problem.train, problem.labels, head=problem.head
    )
    path = f"{tmp_path}/ora.safetensors"
    detector.save(path)
    torch.testing.assert_close(th.load(path).score(problem.train), detector.score(problem.train))


def test_the_balanced_centre_counts_every_class_once_and_leaves_empty_ones_out() -> None:
    problem = make_problem()
    kept = (problem.labels != 3) & ((problem.labels != 0) | (torch.arange(len(problem.labels)) % 5 == 0))
    train, labels = problem.train[kept], problem.labels[kept]
    detector = th.ORA(centre="balanced").fit(train, labels, head=problem.head)
    present = [c for c in range(problem.head.classes) if bool((labels == c).any())]
    assert 3 not in present
    means = torch.stack([train[labels == c].double().mean(dim=0) for c in present])
    torch.testing.assert_close(detector.centres[0], means.mean(dim=0))
    assert not torch.allclose(detector.centres[0], train.double().mean(dim=0))


@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_what_the_authors_offered_to_openood_is_ours_up_to_a_factor(aggregate: str) -> None:
    """Their mean is over all C entries with 0 at the predicted class, and angles are divided by π."""
    problem = make_problem()
    test = problem.train[:30].double()
    detector = th.ORA(centre="balanced", aggregate=aggregate).fit(
        problem.train, problem.labels, head=problem.head
    )
    weight, bias = problem.head.weight.double().numpy(), problem.head.bias.double().numpy()
    means = [problem.train[problem.labels == c].double().mean(dim=0).numpy() for c in range(len(weight))]
    centre = np.mean(means, axis=0)
    theirs = []
    for z in test.numpy():
        p = int(np.argmax(weight @ z + bias))
        angles = [
            0.0
            if c == p
            else oracles.angle(z, oracles.projection(z, weight[p], weight[c], bias[p], bias[c]), centre)
            / np.pi
            for c in range(len(weight))
        ]
        theirs.append(np.mean(angles) if aggregate == "mean" else np.max(angles))
    factor = np.pi * (len(weight) / (len(weight) - 1) if aggregate == "mean" else 1)
    np.testing.assert_allclose(detector.score(test).numpy(), factor * np.array(theirs), rtol=1e-7)


def test_few_classes_are_cautioned_about_where_the_maximum_is_taken() -> None:
    caution = th.ORA.caution(th.ORA().options(), 8)
    assert caution is not None
    assert "with 8 classes" in caution
    assert th.ORA.caution(th.ORA().options(), FEW_CLASSES) is None
    assert th.ORA.caution(th.ORA(aggregate="mean").options(), 8) is None
    assert th.ORA.caution(th.ORA(aggregate="auto").options(), 8) is None
    assert th.KNN.caution(th.KNN().options(), 8) is None
