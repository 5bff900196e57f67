"""A matrix is decomposed once, however many scores of one fit ask for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor

from theodolite import (
    MDS,
    NECO,
    ORA,
    RMDS,
    CoP,
    CoRP,
    Head,
    RelativeEnergy,
    Residual,
    RMahaPlus,
    ViM,
    fit_many,
)
from theodolite.detectors import Detector, MahaPlus, create, list_detectors

pytestmark = pytest.mark.usefixtures("few_waves")

WIDTH, CLASSES = 12, 4


def data() -> tuple[Tensor, Tensor, Head]:
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % CLASSES
    weight = torch.randn(CLASSES, WIDTH, generator=rng)
    return torch.randn(400, WIDTH, generator=rng) + weight[labels], labels, Head(weight, torch.ones(CLASSES))


@pytest.fixture
def decomposed(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The matrices that `eigh` is asked to decompose."""
    seen: list[Tensor] = []
    real: Callable[[Tensor], object] = torch.linalg.eigh

    def counting(matrix: Tensor) -> object:
        seen.append(matrix.clone())
        return real(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", counting)
    return seen


def fitted(*detectors: Detector) -> None:
    features, labels, head = data()
    fit_many(detectors, features, labels, head=head)


def test_a_fit_of_all_scores_decomposes_every_matrix_once(decomposed: list[Tensor]) -> None:
    """Within classes, of all rows, of standardised rows, about ViM's origin; of unit rows those within
    classes and of all, and of mapped ones."""
    every = [create(name) for name in list_detectors()]
    more = [ORA(metric="mahalanobis"), ORA(metric="mahalanobis", shrinkage="none"), NECO(dimension=3)]
    fitted(*every, *more, ViM(dimension=2), RelativeEnergy(shrinkage="none"), MahaPlus())
    assert len(decomposed) == 7
    for one, other in combinations(decomposed, 2):
        assert one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3)


def test_each_matrix_has_its_owners(decomposed: list[Tensor]) -> None:
    for detectors, count in (
        ((ORA(),), 0),
        ((MDS(), MDS()), 1),
        ((MDS(), RMDS()), 2),
        ((RMDS(), RelativeEnergy(), ORA(metric="mahalanobis")), 2),
        ((RelativeEnergy(), NECO(), NECO(variance=0.5)), 2),
        ((ViM(dimension=3), ViM(dimension=5), RelativeEnergy()), 2),
        ((ViM(dimension=3), Residual(), Residual(dimension=2)), 1),
        ((RMahaPlus(), MahaPlus(), CoP(), CoP(variance=0.5)), 2),
        ((CoRP(components=64), CoRP(components=64, variance=0.5), CoRP(components=32)), 2),
    ):
        decomposed.clear()
        fitted(*detectors)
        assert len(decomposed) == count, detectors


def test_shared_fits_are_those_of_each_alone() -> None:
    features, labels, head = data()
    together = [MDS(), RMDS(), NECO(), ViM(), RelativeEnergy(), MahaPlus()]
    fitted(*together)
    for detector in together:
        alone = type(detector)().fit(features, labels, head=head)
        torch.testing.assert_close(detector.score(features), alone.score(features), rtol=1e-12, atol=1e-12)
