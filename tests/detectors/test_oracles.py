"""Every score against its formula, in float64 and in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

import answer_oracles
import oracles
import space_oracles
import theodolite as th
from synthetic import Problem, make_problem

pytestmark = pytest.mark.usefixtures("few_waves")

OPTIONS: dict[str, dict[str, object]] = {"nnguide": {"fraction": 1.0}, "corp": {"components": 256}}
ORACLES: dict[str, Callable[[oracles.Scores, oracles.Vector], float]] = {
    "ora": oracles.Scores.ora,
    "fdbd": oracles.Scores.fdbd,
    "distance": oracles.Scores.distance,
    "msp": oracles.Scores.msp,
    "maxlogit": oracles.Scores.maxlogit,
    "energy": oracles.Scores.energy,
    "odin": oracles.Scores.odin,
    "mds": oracles.Scores.mds,
    "maha+": oracles.Scores.maha_plus,
    "rmds": oracles.Scores.rmds,
    "ssd+": oracles.Scores.ssd_plus,
    "pcos": oracles.Scores.pcos,
    "rcos": oracles.Scores.rcos,
    "knn": oracles.Scores.knn,
    "nnguide": oracles.Scores.nnguide,
    "csi": oracles.Scores.csi,
    "nci": oracles.Scores.nci,
    "neco": oracles.Scores.neco,
    "vim": lambda scores, z: scores.vim(z, dimension=len(z) // 2),
    "mcm": oracles.Scores.mcm,
    "relative-energy": oracles.Scores.relative_energy,
    "rmaha+": space_oracles.rmaha_plus,
    "residual": lambda scores, z: space_oracles.residual(scores, z, dimension=len(z) // 2),
    "cop": space_oracles.cop,
    "corp": lambda scores, z: space_oracles.corp(scores, z, components=256),
    **answer_oracles.ORACLES,
}


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A head of full rank, enough samples a class for full covariances."""
    plain = make_problem(width=24, classes=4, rows=400, seed=3)
    weight = plain.head.weight + 0.05 * torch.randn(4, 24, generator=torch.Generator().manual_seed(9))
    return Problem(th.Head(weight, plain.head.bias), plain.train, plain.labels, plain.test, plain.ood)


def test_every_score_has_an_oracle() -> None:
    assert set(ORACLES) == set(th.list_detectors())


@pytest.mark.parametrize("name", th.list_detectors())
def test_equals_its_formula(name: str, problem: Problem) -> None:
    scores = oracles.Scores(
        problem.head.weight.double().numpy(),
        problem.head.bias.double().numpy(),
        problem.train.double().numpy(),
        problem.labels.numpy(),
    )
    rows = torch.cat([problem.test[:15], problem.ood[:15]])
    expected = np.array([ORACLES[name](scores, row) for row in rows.double().numpy()])
    detector = th.create(name, **OPTIONS.get(name, {})).fit(problem.train, problem.labels, head=problem.head)
    # Relative to the typical size of a score: ViM and R-Mah are differences of larger terms.
    size = np.abs(expected).mean()
    narrow = detector.score(rows).double().numpy()
    assert np.abs(narrow - expected).max() / size < (1e-4 if name in ("rmds", "rmaha+", "vim") else 1e-5)
    wide_head = th.Head(problem.head.weight.double(), problem.head.bias.double())
    wide = th.create(name, **OPTIONS.get(name, {})).fit(
        problem.train.double(), problem.labels, head=wide_head
    )
    assert np.abs(wide.score(rows.double()).numpy() - expected).max() / size < 1e-6


def test_fit_many_equals_fitting_each_alone(problem: Problem) -> None:
    shapings = [None, "react:80", "ash-s:35"]
    together = [th.create(name, shaping=shaping) for name in th.list_detectors() for shaping in shapings]
    th.fit_many(together, problem.train, problem.labels, head=problem.head)
    for detector in together:
        alone = th.create(detector.record.name, **detector.options())
        alone.fit(problem.train, problem.labels, head=problem.head)
        torch.testing.assert_close(
            detector.score(problem.test), alone.score(problem.test), rtol=1e-5, atol=1e-6, msg=str(detector)
        )


def test_one_pass_over_a_stream_serves_all(problem: Problem) -> None:
    reads = 0

    class Stream:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            nonlocal reads
            reads += 1
            for start in range(0, 400, 100):
                part = slice(start, start + 100)
                yield problem.train[part], problem.labels[part]

    detectors = [th.create(name) for name in th.list_detectors()]
    th.fit_many(detectors, Stream(), head=problem.head)
    assert reads == 1
    th.fit_many([th.ORA(shaping="react"), th.Energy(shaping="react")], Stream(), head=problem.head)
    assert reads == 3
