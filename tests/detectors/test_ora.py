"""ORA against the paper's equations, on random and on real features, and the paper's theorem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import oracles
import theodolite as th
from realdata import load_head, load_split
from synthetic import make_problem
from theodolite.core.errors import InputError

CENTRES: list[str | int] = [
    "mean", "balanced", "predicted", "target", 2, "max", "min", "median", "sum-classes", "sum-extremes",
]  # fmt: skip
AGGREGATES = ["max", "mean", "min"]


def random_problem(
    seed: int, *, width: int, classes: int, rows: int = 40
) -> tuple[th.Head, Tensor, Tensor, Tensor]:
    """Head, ID features, labels and test features in float64."""
    rng = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, width, generator=rng, dtype=torch.float64)
    bias = torch.randn(classes, generator=rng, dtype=torch.float64)
    train = torch.randn(60, width, generator=rng, dtype=torch.float64).clamp_min(-0.3)
    labels = torch.arange(60) % classes
    test = torch.randn(rows, width, generator=rng, dtype=torch.float64).clamp_min(-0.3)
    return th.Head(weight, bias), train, labels, test


def oracle(
    head: th.Head, train: Tensor, labels: Tensor | None, test: Tensor, centre: str | int, aggregate: str
) -> np.ndarray:
    """The centre from its definition, then equations 1 to 3."""
    rows = train.double().numpy()
    if labels is None:
        classes = np.zeros((1, rows.shape[1]))
    else:
        numbers = labels.numpy()
        classes = np.stack([rows[numbers == c].mean(axis=0) for c in range(head.classes)])
    extremes = np.stack([rows.max(axis=0), rows.min(axis=0), np.median(rows, axis=0)])
    centres = {
        "mean": rows.mean(axis=0)[None],
        "balanced": classes.mean(axis=0)[None],
        "max": extremes[:1],
        "min": extremes[1:2],
        "median": extremes[2:],
        "sum-extremes": extremes,
    }.get(str(centre), classes)
    if isinstance(centre, int):
        centres = classes[centre][None]
    how = str(centre) if centre in ("predicted", "target") else "one"
    weight, bias = head.weight.double().numpy(), head.bias.double().numpy()
    return oracles.ora(test.double().numpy(), weight, bias, centres, centre=how, aggregate=aggregate)


def stations(centre: str | int, classes: int) -> int:
    """How many angles a score sums: errors are stated for one."""
    return {"sum-classes": classes, "sum-extremes": 3}.get(str(centre), 1)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("centre", CENTRES)
def test_equals_the_paper_on_random_features(centre: str | int, aggregate: str) -> None:
    for width, classes in ((32, 4), (96, 11)):
        head, train, labels, test = random_problem(7, width=width, classes=classes)
        for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-6)):
            narrow = th.Head(head.weight.to(dtype), head.bias.to(dtype))
            detector = th.ORA(centre=centre, aggregate=aggregate)
            detector.fit(train.to(dtype), labels, head=narrow)
            expected = oracle(narrow, train.to(dtype), labels, test.to(dtype), centre, aggregate)
            error = np.abs(detector.score(test.to(dtype)).double().numpy() - expected).max()
            assert error / stations(centre, classes) < tolerance


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("name", ["cifar10-densenet", "imagenet-lite0"])
def test_equals_the_paper_on_real_features(
    name: str, centre: str | int, aggregate: str, data_root: Path
) -> None:
    head = load_head(data_root, name)
    train, labels = load_split(data_root, name, "id_fit")
    rows = 40 if name == "cifar10-densenet" else 3
    if name == "imagenet-lite0" and centre == "sum-classes":
        # All 1,000 class means would take the oracle a million projections a row.
        assert labels is not None
        head, kept = th.Head(head.weight[:30], head.bias[:30]), labels < 30
        train, labels = train[kept], labels[kept]
    test = torch.cat([load_split(data_root, name, split)[0][:rows] for split in ("id_test", "textures")])
    detector = th.ORA(centre=centre, aggregate=aggregate).fit(train, labels, head=head)
    expected = oracle(head, train, labels, test, centre, aggregate)
    single = detector.score(test).double().numpy()
    assert np.abs(single - expected).max() / stations(centre, head.classes) < 1e-6
    # float64 end to end; the bound leaves room for the oracle's arccos at small angles
    np.testing.assert_allclose(detector.score(test.double()).numpy(), expected, atol=1e-9 * len(head.weight))


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 16])
def test_tiny_widths_stay_within_a_microradian(width: int) -> None:
    """Few dimensions let the triangle degenerate; such rows are worked in float64, and stay below 2e-6."""
    head, train, labels, test = random_problem(width, width=width, classes=6, rows=200)
    narrow = th.Head(head.weight.float(), head.bias.float())
    detector = th.ORA().fit(train.float(), labels, head=narrow)
    expected = oracle(narrow, train.float(), labels, test.float(), "mean", "max")
    assert np.abs(detector.score(test.float()).double().numpy() - expected).max() < 2e-6


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_theorem_of_the_appendix(seed: int, scale: float) -> None:
    """Features and mean scaled by k, no bias: the same angles, distances scaled by k."""
    head, train, labels, test = random_problem(seed, width=12, classes=5)
    head = th.Head(head.weight)
    small, large = th.ORA().fit(train, head=head), th.ORA().fit(scale * train, head=head)
    torch.testing.assert_close(large.score(scale * test), small.score(test), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(large.angles(scale * test), small.angles(test), rtol=1e-7, atol=1e-8)
    near, far = (th.Distance().fit(rows, labels, head=head) for rows in (train, scale * train))
    torch.testing.assert_close(far.score(scale * test), scale * near.score(test), rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10_000))
def test_rotation_of_the_feature_space(seed: int) -> None:
    head, train, _, test = random_problem(seed, width=9, classes=4)
    rotation, _ = torch.linalg.qr(
        torch.randn(9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    )
    turned = th.ORA().fit(train @ rotation, head=th.Head(head.weight @ rotation, head.bias))
    torch.testing.assert_close(
        turned.score(test @ rotation), th.ORA().fit(train, head=head).score(test), rtol=1e-8, atol=1e-8
    )


@given(st.integers(0, 10_000), st.sampled_from(AGGREGATES))
def test_permutation_of_the_classes(seed: int, aggregate: str) -> None:
    head, train, _, test = random_problem(seed, width=9, classes=5)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
    renamed = th.Head(head.weight[order], head.bias[order])
    expected = th.ORA(aggregate=aggregate).fit(train, head=head).score(test)
    torch.testing.assert_close(
        th.ORA(aggregate=aggregate).fit(train, head=renamed).score(test), expected, rtol=1e-9, atol=1e-9
    )


@given(st.integers(0, 10_000), st.integers(1, 39))
def test_any_batch_split(seed: int, cut: int) -> None:
    head, train, _, test = random_problem(seed, width=33, classes=4)
    detector = th.ORA().fit(train.float(), head=head)
    whole, rows = detector.score(test.float()), test.float()
    parts = torch.cat([detector.score(rows[:cut]), detector.score(rows[cut:])])
    torch.testing.assert_close(parts, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("width", "classes"), [(64, 10), (512, 100), (1024, 300)])
def test_margins_shrunk_ten_thousandfold(width: int, classes: int) -> None:
    """Features moved to where all logits nearly tie: θ keeps three digits, where arccos has none."""
    rng = torch.Generator().manual_seed(1)
    weight = torch.randn(classes, width, generator=rng) / width**0.5
    bias = 0.1 * torch.randn(classes, generator=rng)
    test = torch.randn(30, width, generator=rng, dtype=torch.float64).relu()
    train = torch.rand(200, width, generator=rng)
    spread, shift = (weight - weight.mean(0)).double(), (bias - bias.mean()).double()
    logits = test @ spread.T + shift
    tied = (test - (1 - 1e-4) * logits @ torch.linalg.pinv(spread).T).float()
    detector = th.ORA().fit(train, head=th.Head(weight, bias))
    args = (tied.double().numpy(), weight.double().numpy(), bias.double().numpy())
    mean = train.double().mean(dim=0, keepdim=True).numpy()
    expected = oracles.ora(*args, mean, measure=oracles.small_angle)
    assert expected.max() < 1e-3
    assert np.abs(detector.score(tied).double().numpy() / expected - 1).max() < 1e-3
    # The textbook way in float32: project, take the arccos of the cosine.
    z, mu = tied[0], train.mean(dim=0)
    p = int((weight @ z + bias).argmax())
    normals = (weight[p] - weight)[torch.arange(classes) != p]
    offsets = normals @ z + (bias[p] - bias)[torch.arange(classes) != p]
    seen = z - (offsets / normals.square().sum(1))[:, None] * normals - mu
    cosine = torch.nn.functional.cosine_similarity(seen, (z - mu)[None]).clamp(-1, 1)
    assert abs(float(torch.arccos(cosine).max()) / expected[0] - 1) > 0.5


def test_angles_and_sighting_agree_with_the_score() -> None:
    problem = make_problem()
    detector = th.ORA().fit(problem.train, head=problem.head)
    scores, angles, sighting = (
        detector.score(problem.test), detector.angles(problem.test), detector.sight(problem.test),
    )  # fmt: skip
    assert angles.shape == (120, 6)
    predicted = problem.head(problem.test).argmax(dim=1)
    rows = torch.arange(120)
    torch.testing.assert_close(angles.amax(dim=1), scores)
    assert (angles[rows, predicted] == 0).all()
    assert torch.equal(sighting.predicted, predicted)
    torch.testing.assert_close(angles[rows, sighting.furthest], scores)
    along = sighting.distance - sighting.centre_distance
    seen = torch.atan2(along, sighting.height) + torch.atan2(sighting.centre_distance, sighting.height)
    torch.testing.assert_close(seen, scores)
    assert isinstance(detector.angles(problem.test.numpy()), np.ndarray)


def test_duplicated_weights_have_no_boundary() -> None:
    """Two classes with the same weights: the pair is left out, every aggregation sees the others only."""
    problem = make_problem(classes=4)
    head = problem.head
    doubled = th.Head(torch.cat([head.weight, head.weight[:1]]), torch.cat([head.bias, head.bias[:1] - 1]))
    for aggregate in AGGREGATES:
        plain = th.ORA(aggregate=aggregate).fit(problem.train, head=head)
        with_twin = th.ORA(aggregate=aggregate).fit(problem.train, head=doubled)
        own = head(problem.test).argmax(dim=1) == 0
        torch.testing.assert_close(with_twin.score(problem.test)[own], plain.score(problem.test)[own])
    assert (with_twin.angles(problem.test)[own][:, 4] == 0).all()


def test_feature_on_the_mean_scores_zero() -> None:
    problem = make_problem()
    train = problem.train.double()
    detector = th.ORA().fit(train, head=problem.head)
    assert float(detector.score(detector.centres)[0]) == 0


def test_class_without_samples_stands_at_the_mean() -> None:
    problem = make_problem()
    kept = problem.labels != 3
    detector = th.ORA(centre="target").fit(problem.train[kept], problem.labels[kept], head=problem.head)
    torch.testing.assert_close(detector.centres[3], problem.train[kept].double().mean(dim=0))
    with pytest.raises(InputError, match="centre=3, but the labels hold no sample of class 3"):
        th.ORA(centre=3).fit(problem.train[kept], problem.labels[kept], head=problem.head)


def test_projection_on_the_sphere_equals_its_definition() -> None:
    """The authors' CLIP variant: unit features, unit text embeddings, the projection normalised again."""
    rng = torch.Generator().manual_seed(2)
    texts = torch.randn(7, 40, generator=rng, dtype=torch.float64)
    images = torch.randn(90, 40, generator=rng, dtype=torch.float64) + 1
    head = th.Head.cosine(texts)
    unit = (images / images.norm(dim=1, keepdim=True)).numpy()
    mu, weight = unit.mean(axis=0), head.weight.numpy()
    expected, plain = [], []
    for z in unit:
        p = int(np.argmax(weight @ z))
        flat = [oracles.projection(z, weight[p], weight[c], 0, 0) for c in range(7) if c != p]
        expected.append(max(oracles.angle(z, v / np.linalg.norm(v), mu) for v in flat))
        plain.append(max(oracles.angle(z, v, mu) for v in flat))
    on_sphere = th.ORA(project_to_sphere=True).fit(images, head=head)
    np.testing.assert_allclose(on_sphere.score(images).numpy(), expected, atol=1e-9)
    np.testing.assert_allclose(th.ORA().fit(images, head=head).score(images).numpy(), plain, atol=1e-9)
    narrow = th.ORA(project_to_sphere=True).fit(images.float(), head=th.Head.cosine(texts.float()))
    np.testing.assert_allclose(narrow.score(images.float()).numpy(), expected, atol=2e-6)
    with pytest.raises(InputError, match="needs a cosine head"):
        th.ORA(project_to_sphere=True).fit(images, head=th.Head(texts))


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match="centre must be a class number or one of mean, balanced, predicted"):
        th.ORA(centre="middle")
    with pytest.raises(InputError, match="aggregate must be one of max, mean, rms, min, auto, got 'sum'"):
        th.ORA(aggregate="sum")
    problem = make_problem()
    detector = th.ORA(centre="sum-classes").fit(problem.train, problem.labels, head=problem.head)
    with pytest.raises(InputError, match="look from one at a time"):
        detector.angles(problem.test)


def test_given_logits_spare_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem()
    detector = th.ORA().fit(problem.train, head=problem.head)
    logits = problem.head(problem.test)
    monkeypatch.setattr(th.Head, "logits", lambda *_: pytest.fail("the logits were computed again"))
    detector.score(problem.test, logits)
