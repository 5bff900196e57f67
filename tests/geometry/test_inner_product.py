"""The Mahalanobis metric: its definition, invariance under affine maps, and the cases without full rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import OAS
from torch import Tensor

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError
from theodolite.geometry.inner_product import Mahalanobis, oas_shrinkage, spectrum

CENTRES: list[str | int] = [
    "mean",
    "predicted",
    "target",
    1,
    "max",
    "min",
    "median",
    "sum-classes",
    "sum-extremes",
]
AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "max": max,
    "min": min,
    "mean": lambda angles: float(np.mean(angles)),
    "rms": lambda angles: float(np.sqrt(np.mean(np.square(angles)))),
}


def random_problem(seed: int, *, width: int = 32, rows: int = 90) -> tuple[th.Head, Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=rng, dtype=torch.float64)
    train = torch.randn(rows, width, generator=rng, dtype=torch.float64) @ mix + 1
    test = torch.randn(25, width, generator=rng, dtype=torch.float64) @ mix
    weight = torch.randn(4, width, generator=rng, dtype=torch.float64) / width
    head = th.Head(weight, torch.randn(4, generator=rng, dtype=torch.float64))
    return head, train, torch.arange(rows) % 4, test


def shrunk(train: np.ndarray) -> np.ndarray:
    """The covariance as scikit-learn shrinks it."""
    return np.asarray(OAS().fit(train).covariance_)


def oracle(
    head: th.Head,
    sigma: np.ndarray,
    centres: np.ndarray,
    test: np.ndarray,
    how: str,
    reduce: Callable[[list[float]], float],
) -> np.ndarray:
    """The nearest boundary point and the angle, both in ⟨x, y⟩ = xᵀ Σ⁻¹ y, a sample and a class at a time."""
    weight, bias, inverse = head.weight.double().numpy(), head.bias.double().numpy(), np.linalg.pinv(sigma)
    scores = np.zeros(len(test))
    for row, z in enumerate(test):
        p = int(np.argmax(weight @ z + bias))
        stations = {"predicted": [p], "target": [-1]}.get(how, range(len(centres)))
        for station in stations:
            angles = []
            for c in range(len(weight)):
                if c == p:
                    continue
                w = weight[p] - weight[c]
                z_db = z - (w @ z + bias[p] - bias[c]) / (w @ sigma @ w) * (sigma @ w)
                mu = centres[c] if how == "target" else centres[station]
                u, v = z - mu, z_db - mu
                cosine = u @ inverse @ v / np.sqrt((u @ inverse @ u) * (v @ inverse @ v))
                angles.append(float(np.arccos(np.clip(cosine, -1, 1))))
            scores[row] += reduce(angles)
    return scores


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("centre", CENTRES)
def test_equals_its_definition(centre: str | int, aggregate: str) -> None:
    head, train, labels, test = random_problem(0)
    rows = train.numpy()
    classes = np.stack([rows[labels.numpy() == c].mean(axis=0) for c in range(4)])
    extremes = np.stack([rows.max(axis=0), rows.min(axis=0), np.median(rows, axis=0)])
    centres = {
        "mean": rows.mean(axis=0)[None],
        "max": extremes[:1],
        "min": extremes[1:2],
        "median": extremes[2:],
    }
    points = centres.get(str(centre), extremes if centre == "sum-extremes" else classes)
    if isinstance(centre, int):
        points = classes[centre][None]
    expected = oracle(head, shrunk(rows), points, test.numpy(), str(centre), AGGREGATES[aggregate])
    detector = th.ORA(centre=centre, aggregate=aggregate, metric="mahalanobis").fit(train, labels, head=head)
    np.testing.assert_allclose(detector.score(test).numpy(), expected, atol=1e-7)
    narrow = th.ORA(centre=centre, aggregate=aggregate, metric="mahalanobis")
    narrow.fit(train.float(), labels, head=th.Head(head.weight.float(), head.bias.float()))
    np.testing.assert_allclose(narrow.score(test.float()).numpy(), expected, atol=1e-5 * max(1, len(points)))


def test_fdbd_distance_and_relative_energy_in_the_metric() -> None:
    head, train, labels, test = random_problem(1)
    sigma = shrunk(train.numpy())
    inverse, weight = np.linalg.inv(sigma), head.weight.numpy()
    mean = train.numpy().mean(axis=0)
    ratios, furthest, energies = [], [], []
    for z in test.numpy():
        logits = weight @ z + head.bias.numpy()
        p = int(np.argmax(logits))
        differences = [(weight[p] - weight[c], logits[p] - logits[c]) for c in range(4) if c != p]
        distances = [gap / np.sqrt(w @ sigma @ w) for w, gap in differences]
        norm = np.sqrt((z - mean) @ inverse @ (z - mean))
        ratios.append(np.mean(distances) / norm)
        furthest.append(max(distances))
        energies.append(np.log(np.sum(np.exp(logits - logits.mean()))) / norm)
    for detector, expected in (
        (th.FDBD(metric="mahalanobis"), ratios),
        (th.Distance(metric="mahalanobis"), furthest),
        (th.RelativeEnergy(), energies),
    ):
        np.testing.assert_allclose(
            detector.fit(train, labels, head=head).score(test).numpy(), expected, rtol=1e-9
        )
        narrow = detector.fit(train.float(), labels, head=th.Head(head.weight.float(), head.bias.float()))
        np.testing.assert_allclose(narrow.score(test.float()).numpy(), expected, rtol=1e-5)


@given(st.integers(0, 10_000))
def test_any_invertible_affine_map_changes_nothing(seed: int) -> None:
    """Features x ↦ xA + t, the head rewritten to match: the same scores, without shrinkage."""
    head, train, labels, test = random_problem(seed, width=8)
    rng = torch.Generator().manual_seed(seed)
    orthogonal, _ = torch.linalg.qr(torch.randn(8, 8, generator=rng, dtype=torch.float64))
    stretch = torch.logspace(-1, 1, 8, dtype=torch.float64)
    other, _ = torch.linalg.qr(torch.randn(8, 8, generator=rng, dtype=torch.float64))
    matrix = orthogonal * stretch @ other
    shift = torch.randn(8, generator=rng, dtype=torch.float64)
    weight = torch.linalg.solve(matrix, head.weight.T).T
    moved = th.Head(weight, head.bias - weight @ shift)
    for make in (
        lambda: th.ORA(metric="mahalanobis", shrinkage="none"),
        lambda: th.ORA(metric="mahalanobis", shrinkage="none", aggregate="mean", centre="target"),
        lambda: th.FDBD(metric="mahalanobis", shrinkage="none"),
        lambda: th.Distance(metric="mahalanobis", shrinkage="none"),
        lambda: th.RelativeEnergy(shrinkage="none"),
    ):
        expected = make().fit(train, labels, head=head).score(test)
        actual = make().fit(train @ matrix + shift, labels, head=moved).score(test @ matrix + shift)
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-7)


def test_a_common_function_of_the_logits_changes_nothing() -> None:
    head, train, labels, test = random_problem(2)
    tilted = th.Head(head.weight + torch.randn(32, dtype=torch.float64), head.bias + 3)
    expected = th.RelativeEnergy().fit(train, labels, head=head).score(test)
    torch.testing.assert_close(th.RelativeEnergy().fit(train, labels, head=tilted).score(test), expected)


def test_shrinkage_is_scikit_learns() -> None:
    for seed, rows in ((0, 20), (1, 90), (2, 2000)):
        _, train, _, _ = random_problem(seed, rows=rows)
        covariance = torch.cov(train.T, correction=0)
        assert oas_shrinkage(covariance, rows) == pytest.approx(OAS().fit(train.numpy()).shrinkage_, rel=1e-9)
    assert oas_shrinkage(torch.eye(5, dtype=torch.float64), 10) == 1.0


@pytest.mark.parametrize("rows", [5, 14, 24, 90])
@pytest.mark.parametrize("centre", ["mean", "target"])
def test_fewer_samples_than_features(rows: int, centre: str) -> None:
    """The low-rank form (rank at most D/2), the filled-up form and the full one are the same metric."""
    head, train, labels, test = random_problem(3, rows=rows)
    sigma = shrunk(train.numpy())
    numbers = labels.numpy()
    means = {"mean": train.numpy().mean(axis=0)[None]}.get(
        centre, np.stack([train.numpy()[numbers == c].mean(axis=0) for c in range(4)])
    )
    expected = oracle(head, sigma, means, test.numpy(), centre, max)
    detector = th.ORA(metric="mahalanobis", centre=centre).fit(train, labels, head=head)
    metric = detector._stations.metric
    assert metric is not None
    assert metric.low_rank == (rows <= 17)
    np.testing.assert_allclose(detector.score(test).numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(detector.score(test.float()).numpy(), expected, atol=2e-5)


def test_without_shrinkage_flat_directions_are_left_out() -> None:
    head, train, labels, test = random_problem(4, rows=12)
    detector = th.ORA(metric="mahalanobis", shrinkage="none").fit(train, labels, head=head)
    assert torch.isfinite(detector.score(test)).all()
    assert detector.metric_directions.shape == (32, 11)


def test_coordinates_are_euclidean() -> None:
    _, train, _, test = random_problem(5)
    parts = spectrum(torch.cov(train.T, correction=0), len(train))
    sigma = shrunk(train.numpy())
    rows = Mahalanobis(parts).coordinates(test)
    gram = test.numpy() @ np.linalg.inv(sigma) @ test.numpy().T
    np.testing.assert_allclose((rows @ rows.T).numpy(), gram, rtol=1e-8, atol=1e-8)


def test_euclidean_is_untouched_by_the_option() -> None:
    problem = make_problem()
    plain = th.ORA().fit(problem.train, problem.labels, head=problem.head).score(problem.test)
    named = th.ORA(metric="euclidean", shrinkage="none").fit(problem.train, problem.labels, head=problem.head)
    assert torch.equal(plain, named.score(problem.test))


def test_duplicated_weights_have_no_boundary_in_any_metric() -> None:
    problem = make_problem(classes=3)
    weight, bias = problem.head.weight, problem.head.bias
    doubled = th.Head(torch.cat([weight, weight[:1]]), torch.cat([bias, bias[:1] - 1]))
    for aggregate in AGGREGATES:
        plain, twin = (
            th.ORA(metric="mahalanobis", aggregate=aggregate).fit(problem.train, head=head)
            for head in (problem.head, doubled)
        )
        own = problem.head(problem.test).argmax(dim=1) == 0
        torch.testing.assert_close(twin.score(problem.test)[own], plain.score(problem.test)[own])


def weighted_oracle(angles: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    scores = []
    for row, p in zip(angles, predicted, strict=True):
        others = [c for c in range(len(row)) if c != p]
        scores.append(sum(weights[c] * row[c] for c in others) / sum(weights[c] for c in others))
    return np.array(scores)


@pytest.mark.parametrize("kind", ["variance", "accuracy"])
def test_class_weights(kind: str) -> None:
    problem = make_problem(classes=5, rows=400)
    noise = torch.linspace(0.5, 4, 5)[problem.labels][:, None]
    train = problem.train + noise * torch.randn(
        problem.train.shape, generator=torch.Generator().manual_seed(0)
    )
    rows, labels = train.double(), problem.labels
    predicted = problem.head(train).argmax(dim=1)
    if kind == "variance":
        raw = [
            1 / float((rows[labels == c] - rows[labels == c].mean(0)).square().sum(1).mean())
            for c in range(5)
        ]
    else:
        raw = [float((predicted[labels == c] == c).double().mean()) for c in range(5)]
    weights = np.array(raw) / np.mean(raw)
    assert weights.std() > 0.01
    detector = th.ORA(aggregate="mean", class_weights=kind).fit(train, labels, head=problem.head)
    np.testing.assert_allclose(detector.weights.numpy(), weights, rtol=1e-9)
    plain = th.ORA(aggregate="mean").fit(train, labels, head=problem.head)
    test = problem.test.double()
    answers = problem.head(test).argmax(dim=1).numpy()
    expected = weighted_oracle(plain.angles(test).numpy(), answers, weights)
    np.testing.assert_allclose(detector.score(test).numpy(), expected, rtol=1e-9)
    summed = th.ORA(centre="sum-classes", class_weights=kind).fit(train, labels, head=problem.head)
    parts = [th.ORA(centre=c).fit(train, labels, head=problem.head).score(test).numpy() for c in range(5)]
    np.testing.assert_allclose(summed.score(test).numpy(), np.array(parts).T @ weights, rtol=1e-9)
    halves = [
        detector.collect(train[p], labels[p], head=problem.head) for p in (slice(0, 130), slice(130, None))
    ]
    merged = detector.fit(halves[0] + halves[1])
    np.testing.assert_allclose(merged.weights.numpy(), weights, rtol=1e-9)


def test_errors() -> None:
    with pytest.raises(InputError, match="metric must be one of euclidean, mahalanobis"):
        th.ORA(metric="manhattan")
    with pytest.raises(InputError, match="shrinkage must be one of oas, none"):
        th.FDBD(shrinkage="half")
    with pytest.raises(InputError, match="Euclidean unit sphere"):
        th.ORA(metric="mahalanobis", project_to_sphere=True)
    with pytest.raises(InputError, match="class_weights must be one of variance, accuracy"):
        th.ORA(aggregate="mean", class_weights="size")
    with pytest.raises(InputError, match="class_weights weigh a mean"):
        th.ORA(class_weights="variance")
    problem = make_problem()
    with pytest.raises(InputError, match="features do not vary at all"):
        th.RelativeEnergy().fit(torch.ones(10, 48), head=problem.head)


def test_the_recommended_score_is_registered() -> None:
    assert th.RECOMMENDED in th.list_detectors()
    assert isinstance(th.create(th.RECOMMENDED), th.RelativeEnergy)


@pytest.mark.parametrize("width", [5, 128, 129, 300, 1_100])
@pytest.mark.parametrize("shrinkage", ["oas", "none"])
def test_triangular_blocks_measure_as_the_covariance_does(width: int, shrinkage: str) -> None:
    """‖x T‖² = xᵀ Σ⁻¹ x for every cut into blocks, with directions that the data lack among them."""
    rng = torch.Generator().manual_seed(width)
    rank = max(2, 2 * width // 3)
    data = torch.randn(3 * width, rank, generator=rng, dtype=torch.float64)
    data = data @ torch.randn(rank, width, generator=rng, dtype=torch.float64)
    covariance = torch.cov(data.T)
    parts = spectrum(covariance, len(data), shrinkage=shrinkage)
    rows = (
        data[:7] @ torch.diag(torch.linspace(0.5, 2, width, dtype=torch.float64))
        if shrinkage == "oas"
        else data[:7]
    )
    weight = oas_shrinkage(covariance, len(data)) if shrinkage == "oas" else 0.0
    sigma = (1 - weight) * covariance + weight * covariance.diagonal().mean() * torch.eye(width)
    inverse = torch.linalg.pinv(sigma.double(), hermitian=True, rtol=1e-10)
    expected = torch.einsum("nd,de,ne->n", rows, inverse, rows)
    seen = Mahalanobis(parts).coordinates(rows).square().sum(dim=1)
    torch.testing.assert_close(seen, expected, rtol=1e-6, atol=0)
    for part in (rows[:1], rows.float()):
        again = Mahalanobis(parts).coordinates(part).square().sum(dim=1).double()
        torch.testing.assert_close(again, expected[: len(part)], rtol=1e-3, atol=0)
