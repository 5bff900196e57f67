"""Our scores against pytorch-ood's on the same features: what is equal, and the factor where it is not.

pytorch-ood counts the other way (higher = more out-of-distribution), so every factor is negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import theodolite as th
from synthetic import Problem, make_problem
from theodolite.core.compat import import_torchvision
from theodolite.reference.head import unit_rows

pytestmark = pytest.mark.peers
import_torchvision()  # pytorch-ood imports it, and it may need help to load
ood = pytest.importorskip("pytorch_ood.detector", reason="make test-peers installs it")

ROWS = 600


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A head of full rank, so that pseudo-inverses do not depend on anyone's tolerance."""
    plain = make_problem(width=32, classes=5, rows=ROWS, seed=4)
    weight = plain.head.weight + 0.05 * torch.randn(5, 32, generator=torch.Generator().manual_seed(8))
    return Problem(th.Head(weight, plain.head.bias), plain.train, plain.labels, plain.test, plain.ood)


def linear(head: th.Head) -> nn.Linear:
    layer = nn.Linear(head.width, head.classes)
    layer.weight.data, layer.bias.data = head.weight.clone(), head.bias.clone()
    return layer.requires_grad_(False)


def on_maps(head: th.Head) -> Callable[[Tensor], Tensor]:
    """The head as the shaping detectors call it: behind maps of one pixel."""
    return lambda maps: head(maps.flatten(1))


def maps(features: Tensor) -> Tensor:
    return features[:, :, None, None]


def on_sphere(problem: Problem) -> Problem:
    return Problem(problem.head, unit_rows(problem.train), problem.labels, problem.test, problem.ood)


@dataclass(frozen=True)
class Peer:
    """ours = factor · theirs, to ``tolerance`` of the typical score."""

    ours: th.Detector
    theirs: Callable[[Problem, Tensor], Tensor]
    factor: float = -1.0
    tolerance: float = 1e-5


def fitted_on_features(make: Callable[[th.Head], object]) -> Callable[[Problem, Tensor], Tensor]:
    def scores(problem: Problem, rows: Tensor) -> Tensor:
        detector = make(problem.head)
        detector.fit_features(problem.train, problem.labels)  # type: ignore[attr-defined]
        result: Tensor = detector.predict_features(rows)  # type: ignore[attr-defined]
        return result

    return scores


def shaped(make: Callable[[th.Head], object], *, fit: bool = False) -> Callable[[Problem, Tensor], Tensor]:
    def scores(problem: Problem, rows: Tensor) -> Tensor:
        detector = make(problem.head)
        if fit:
            detector.fit_feature_maps(maps(problem.train), problem.labels)  # type: ignore[attr-defined]
        result: Tensor = detector.predict_feature_maps(maps(rows))  # type: ignore[attr-defined]
        return result

    return scores


def ash(variant: str) -> Callable[[Problem, Tensor], Tensor]:
    """Their percentile is a share in 0..1."""
    return shaped(lambda head: ood.ASH(None, on_maps(head), variant=variant, percentile=0.65))


PEERS = {
    "fdbd": Peer(th.FDBD(), fitted_on_features(lambda head: ood.fDBD(None, linear(head)))),
    # Their α is 0 unless set.
    "nci": Peer(th.NCI(), fitted_on_features(lambda head: ood.NCI(None, linear(head), alpha=1e-4))),
    # Their bank is all rows given.
    "nnguide": Peer(
        th.NNGuide(fraction=1.0), fitted_on_features(lambda head: ood.NNGuide(None, linear(head)))
    ),
    "knn": Peer(th.KNN(), fitted_on_features(lambda _: ood.KNN(None))),
    # Half the squared distance under the scatter, which is the covariance times N. Their float32 inverse,
    # with 1e-6 on the diagonal, costs digits.
    "mds": Peer(
        th.MDS(), fitted_on_features(lambda _: ood.Mahalanobis(None)), factor=-2 * ROWS, tolerance=1e-4
    ),
    # Scatter instead of covariance, but no half.
    "rmds": Peer(th.RMDS(), fitted_on_features(lambda _: ood.RMD(None)), factor=-ROWS, tolerance=1e-3),
    # Their dimension has no default. Five is where the spectrum has a gap: elsewhere float32 and float64 may
    # part directions of nearly equal variance differently.
    "vim": Peer(
        th.ViM(dimension=5),
        fitted_on_features(lambda head: ood.ViM(None, 5, head.weight, head.bias)),
        tolerance=1e-4,
    ),
    "mcm": Peer(th.MCM(), lambda problem, rows: ood.MCM(None, problem.head.weight).predict_features(rows)),
    "msp": Peer(th.MSP(), lambda problem, rows: ood.MaxSoftmax.score(problem.head(rows))),
    "maxlogit": Peer(th.MaxLogit(), lambda problem, rows: ood.MaxLogit.score(problem.head(rows))),
    "energy": Peer(
        th.Energy(temperature=2.0), lambda problem, rows: ood.EnergyBased.score(problem.head(rows), t=2.0)
    ),
    "energy of react": Peer(
        th.Energy(shaping="react:90"),
        shaped(lambda head: ood.ReAct(None, on_maps(head), percentile=0.9), fit=True),
    ),
    # Two more methods of the field have this name: see docs/compatibility.md.
    "energy of vra": Peer(
        th.Energy(shaping="vra-clip-units:1,99"),
        shaped(lambda head: ood.VRA(None, on_maps(head)), fit=True),
    ),
    "energy of vra, other percentiles": Peer(
        th.Energy(shaping="vra-clip-units:10,85"),
        shaped(
            lambda head: ood.VRA(None, on_maps(head), lower_percentile=0.1, upper_percentile=0.85), fit=True
        ),
    ),
    # Theirs has no switch for it: they are given unit features.
    "rmaha+": Peer(
        th.RMahaPlus(),
        lambda problem, rows: fitted_on_features(lambda _: ood.RMD(None))(
            on_sphere(problem), unit_rows(rows)
        ),
        factor=-ROWS,
        tolerance=1e-3,
    ),
    "energy of ash-s": Peer(th.Energy(shaping="ash-s:65"), ash("ash-s")),
    "energy of ash-b": Peer(th.Energy(shaping="ash-b:65"), ash("ash-b")),
    "energy of ash-p": Peer(th.Energy(shaping="ash-p:65"), ash("ash-p")),
    "energy of scale": Peer(
        th.Energy(shaping="scale:85"), shaped(lambda head: ood.SCALE(None, on_maps(head), percentile=0.85))
    ),
}


@pytest.mark.parametrize("name", PEERS)
def test_equal_up_to_the_stated_factor(name: str, problem: Problem) -> None:
    peer = PEERS[name]
    rows = torch.cat([problem.test, problem.ood])
    ours = peer.ours.fit(problem.train, problem.labels, head=problem.head).score(rows).double().numpy()
    theirs = peer.factor * peer.theirs(problem, rows).detach().double().numpy()
    assert np.abs(ours - theirs).max() / np.abs(ours).mean() < peer.tolerance


class Classifier(nn.Module):
    """Two layers, so that the gradient differs from row to row."""

    def __init__(self, head: th.Head) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(6)
            self.body = nn.Linear(20, head.width)
        self.head = linear(head)

    def features(self, inputs: Tensor) -> Tensor:
        return self.body(inputs).relu()  # type: ignore[no-any-return]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))  # type: ignore[no-any-return]


def test_odin_perturbs_and_scores_alike(problem: Problem) -> None:
    model = Classifier(problem.head).eval()
    inputs = torch.randn(64, 20, generator=torch.Generator().manual_seed(2))
    # At T = 1000 most of the digits of a float32 softmax are the same for all rows: the comparison that bites
    # is at a temperature where scores differ.
    for temperature, noise in ((1000.0, 0.0014), (2.0, 0.05)):
        ours = th.ODIN(temperature=temperature, noise=noise).fit(head=problem.head)
        nudged = ours.prepare(model, inputs)
        theirs = ood.odin_preprocessing(model, inputs, eps=noise, temperature=temperature)
        torch.testing.assert_close(nudged, theirs, rtol=0, atol=1e-7)
        with torch.no_grad():
            scores = ours.score(model.features(nudged))
        expected = -ood.ODIN(model, eps=noise, temperature=temperature).predict(inputs)
        torch.testing.assert_close(scores, expected, rtol=1e-5, atol=0)


def test_a_capture_that_nudges_gives_their_scores_of_images(problem: Problem) -> None:
    """Behind a convolution, in batches, through the whole path from images to scores."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        body = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, problem.head.width))
    model = nn.Sequential(body, nn.ReLU(), linear(problem.head)).eval()
    images = torch.randn(30, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    ours = th.ODIN(temperature=2.0, noise=0.05).fit(head=problem.head)
    capture = th.Capture(model, score=ours)
    scores = torch.cat([ours.score(capture(part)[0]) for part in torch.split(images, 11)])
    expected = -ood.ODIN(model, eps=0.05, temperature=2.0).predict(images)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=0)
    plain = -ood.ODIN(model, eps=0.0, temperature=2.0).predict(images)
    assert float((expected - plain).abs().min()) > 1e-3, "the nudge must show"


def test_their_odin_may_step_in_units_of_the_pixels(problem: Problem) -> None:
    """With norm_std their step is ε/std in each channel; ours is ε in units of the normalised input."""
    model = nn.Sequential(nn.Flatten(), Classifier(problem.head)).eval()
    inputs = torch.randn(8, 5, 2, 2, generator=torch.Generator().manual_seed(3))
    deviation = [0.2, 0.3, 0.4, 0.5, 0.6]
    step = ood.odin_preprocessing(model, inputs, eps=0.01, norm_std=deviation) - inputs
    ours = th.ODIN(noise=0.01).fit(head=problem.head).prepare(model, inputs) - inputs
    torch.testing.assert_close(step * torch.tensor(deviation)[:, None, None], ours, rtol=0, atol=1e-6)


def test_where_theirs_ends_in_nan_ours_is_finite(problem: Problem) -> None:
    head, mean = problem.head, problem.train.mean(dim=0, keepdim=True)
    twins = th.Head(torch.cat([head.weight, head.weight[:1]]), torch.cat([head.bias, head.bias[:1]]))
    nothing = torch.zeros(1, head.width)
    rows = problem.train[problem.labels == 0][:5]  # predicted as a class that has a twin
    cases: list[tuple[th.Detector, th.Head, Callable[[Problem, Tensor], Tensor], Tensor]] = [
        (th.NCI(), head, fitted_on_features(lambda h: ood.NCI(None, linear(h))), mean),
        (th.FDBD(), twins, fitted_on_features(lambda h: ood.fDBD(None, linear(h))), rows),
        (th.Energy(shaping="ash-s:65"), head, ash("ash-s"), nothing),
        (th.Energy(shaping="scale:65"), head, shaped(lambda h: ood.SCALE(None, on_maps(h))), nothing),
    ]
    for ours, used, theirs, features in cases:
        seen = Problem(used, problem.train, problem.labels, problem.test, problem.ood)
        assert torch.isnan(theirs(seen, features)).any(), ours
        fitted = ours.fit(problem.train, problem.labels, head=used)
        assert torch.isfinite(fitted.score(features)).all(), ours


def test_what_theirs_refuses(problem: Problem) -> None:
    kept = problem.labels != 2
    with pytest.raises(AssertionError):
        ood.Mahalanobis(None).fit_features(problem.train[kept], problem.labels[kept])
    with pytest.raises(ValueError, match="exceeds the number of ID samples"):
        ood.KNN(None, k=50).fit_features(problem.train[:10], problem.labels[:10])
    assert torch.isfinite(th.MDS().fit(problem.train[kept], problem.labels[kept]).score(problem.test)).all()
    assert torch.isfinite(th.KNN(k=50).fit(problem.train[:10]).score(problem.test)).all()
