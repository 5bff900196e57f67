"""VRA in its four forms and RAS: their formulas, exact on arrays, from counts on streams, mergeable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

import theodolite as th
from synthetic import Problem, make_problem
from theodolite.core.errors import FormatError, InputError, NotFittedError
from theodolite.detectors.shaping import Learner, Shaping, parse_shaping
from theodolite.reference.sorted_profile import SortedProfile
from theodolite.reference.unit_percentiles import UnitHistograms


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Features with negative entries too, and a unit that never varies."""
    made = make_problem(rows=500)
    train, test = made.train - 0.4, made.test - 0.4
    train[:, 7] = test[:, 7] = 0.0
    return Problem(made.head, train, made.labels, test, made.ood)


def vra(row: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """One entry at a time: below low nothing, and never more than high."""
    return np.array(
        [min(0.0 if z < least else z, most) for z, least, most in zip(row, low, high, strict=True)]
    )


def clip(row: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.array([min(max(z, least), most) for z, least, most in zip(row, low, high, strict=True)])


def ras(row: np.ndarray, profile: np.ndarray) -> np.ndarray:
    """Equal entries get the mean of the places they take up together."""
    ranked = sorted(row)
    return np.array([np.mean([p for p, z in zip(profile, ranked, strict=True) if z == own]) for own in row])


def shaped_by_hand(spec: str, train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    width = train.shape[1]
    name, _, numbers = spec.partition(":")
    if name == "ras":
        profile = np.sort(train, axis=1).mean(axis=0)
        return np.stack([ras(row, profile) for row in rows])
    lower, upper = (float(number) for number in numbers.split(","))
    if name == "vra-at":
        return np.stack([vra(row, np.full(width, lower), np.full(width, upper)) for row in rows])
    if name == "vra-clip":
        low, high = (np.full(width, np.percentile(train, percent)) for percent in (lower, upper))
        return np.stack([clip(row, low, high) for row in rows])
    low, high = (np.percentile(train, percent, axis=0) for percent in (lower, upper))
    return np.stack([(vra if name == "vra" else clip)(row, low, high) for row in rows])


SPECS = [
    "vra:60,90", "vra:0,100", "vra:33.3,33.3", "vra-at:0.5,1", "vra-at:-0.25,0.75",
    "vra-clip:10,90", "vra-clip-units:1,99", "ras",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_equals_its_formula(spec: str, problem: Problem) -> None:
    wide = problem.train.double()
    detector = th.Energy(shaping=spec).fit(wide, head=problem.head)
    assert detector.shaping is not None
    rows = torch.cat([problem.test[:40].double(), wide[:3], torch.zeros(1, 48, dtype=torch.float64)])
    expected = shaped_by_hand(spec, wide.numpy(), rows.numpy())
    np.testing.assert_allclose(detector.shaping(rows).numpy(), expected, rtol=1e-12, atol=1e-12)
    by_hand = th.Energy().fit(head=problem.head).score(torch.from_numpy(expected))
    torch.testing.assert_close(detector.score(rows), by_hand)
    narrow = th.Energy(shaping=spec).fit(problem.train, head=problem.head)
    assert narrow.shaping is not None
    assert narrow.shaping(problem.test).dtype == torch.float32


def test_the_defaults_are_those_of_each_form() -> None:
    assert parse_shaping("vra").options() == {"lower": 60.0, "upper": 90.0}
    assert parse_shaping("vra-at").options() == {"low": 0.5, "high": 1.0}
    assert parse_shaping("vra-clip").options() == {"lower": 10.0, "upper": 90.0}
    assert parse_shaping("vra_clip_units").options() == {"lower": 1.0, "upper": 99.0}
    assert parse_shaping("RAS").spec == "ras"


@pytest.mark.parametrize("spec", ["vra", "vra-clip", "vra-clip-units", "ras"])
def test_parts_stream_and_arrays_agree(spec: str, problem: Problem) -> None:
    """What was learnt in parts is what the stream of the whole gives; arrays are exact."""
    parts = [problem.train[start : start + 100] for start in range(0, 500, 100)]
    streamed = parse_shaping(spec)
    assert isinstance(streamed, Learner)
    streamed.fit(parts)
    looks = [streamed.looks() for _ in parts]
    for look, part in zip(looks, parts, strict=True):
        look.update(part)
    merged = parse_shaping(spec)
    assert isinstance(merged, Learner)
    merged.learn(sum(looks[1:], looks[0]), None)
    assert merged.view_key == streamed.view_key != merged.spec
    detector = th.Energy(shaping=spec).fit(problem.train, head=problem.head)
    for name in streamed.learnt:
        whole = detector.get_buffer(f"shaping.{name}")
        torch.testing.assert_close(merged.get_buffer(name), streamed.get_buffer(name), rtol=1e-14, atol=0)
        # 500 rows leave gaps between neighbours; a bin is 1.6 % wide.
        torch.testing.assert_close(streamed.get_buffer(name), whole, rtol=0.05, atol=0.05)
    again = [(part, None) for part in parts]
    from_batches = th.Energy(shaping=spec).fit(again, head=problem.head)
    assert from_batches.view_key == streamed.view_key


rows_of_numbers = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32)
)


@given(rows_of_numbers, st.floats(0, 100))
def test_unit_percentiles(values: np.ndarray, percent: float) -> None:
    rows = torch.from_numpy(values)
    whole, first, second = (UnitHistograms() for _ in range(3))
    whole.update(rows)
    for half, part in ((first, rows[: len(rows) // 2]), (second, rows[len(rows) // 2 :])):
        half.update(part)
    merged = UnitHistograms.unpacked((first + second).packed())
    assert torch.equal(merged.percentiles(percent), whole.percentiles(percent))
    exact = whole.exact_percentiles(percent, lambda: [rows[:5], rows[5:]]).numpy()
    wide = values.astype(np.float64)
    np.testing.assert_allclose(exact, np.percentile(wide, percent, axis=0), rtol=1e-9, atol=1e-9)
    # Between the values of the ranks around it, or in their bins: as far away as those are wide.
    place, ordered = percent / 100 * (len(values) - 1), np.sort(wide, axis=0)
    low = ordered[max(int(np.floor(place - 1e-9)), 0)]
    high = ordered[min(int(np.ceil(place + 1e-9)), len(values) - 1)]
    found = whole.percentiles(percent).numpy()
    assert (found >= low - 2.0**-6 * np.abs(low) - 1e-37).all()
    assert (found <= high + 2.0**-6 * np.abs(high) + 1e-37).all()


@given(rows_of_numbers)
def test_sorted_profiles_merge(values: np.ndarray) -> None:
    rows = torch.from_numpy(values)
    first, second = SortedProfile(), SortedProfile()
    first.update(rows[: len(rows) // 2])
    second.update(rows[len(rows) // 2 :])
    merged = SortedProfile.unpacked((first + second).packed())
    expected = np.sort(values.astype(np.float64), axis=1).mean(axis=0)
    np.testing.assert_allclose(merged.mean.numpy(), expected, rtol=1e-12, atol=1e-6)


def test_a_look_that_cannot_be_is_refused(problem: Problem) -> None:
    units, profile = UnitHistograms(), SortedProfile()
    units.update(problem.train)
    profile.update(problem.train)
    good, curve = units.packed(), profile.packed()
    fewer = good["counts"].clone()
    fewer[3] += 1
    for wrong in (
        good | {"counts": fewer},
        good | {"counts": -good["counts"]},
        good | {"keys": good["keys"].flip(0)},
        good | {"keys": good["keys"] - 2**15},
        good | {"rows": torch.tensor([499])},
        good | {"keys": good["keys"][:0], "counts": good["counts"][:0]},
        {"keys": good["keys"]},
    ):
        with pytest.raises(FormatError):
            UnitHistograms.unpacked(wrong)
    for wrong in (curve | {"rows": torch.tensor([0])}, curve | {"total": curve["total"][:0]}, {}):
        with pytest.raises(FormatError):
            SortedProfile.unpacked(wrong)
    for look in (units, profile):
        with pytest.raises(InputError, match="width 12, those before had 48"):
            look.update(problem.train[:, :12])
    narrow = UnitHistograms()
    narrow.update(problem.train[:, :12])
    with pytest.raises(InputError, match="width 48 and 12"):
        _ = units + narrow


def test_all_digits_of_an_option_are_in_its_text_and_file(problem: Problem, tmp_path: Path) -> None:
    """What a file says of a shaping is its text: without its digits a guard would give other verdicts."""
    low, percent = 0.1234567890123, 100 / 3
    for shaping in (th.VRAAt(low=low), th.VRA(lower=percent), th.ReAct(percentile=percent)):
        assert parse_shaping(shaping.spec).options() == shaping.options()
        detector = th.MaxLogit(shaping=shaping).fit(problem.train, head=problem.head)
        detector.save(tmp_path / "shaped")
        again = th.load(tmp_path / "shaped")
        assert again.shaping is not None
        assert again.shaping.options() == shaping.options()
        assert torch.equal(again.score(problem.test), detector.score(problem.test))
    assert th.VRA().spec == "vra:60,90"


def test_ras_keeps_the_order_and_forgets_the_size(problem: Problem) -> None:
    shaping = th.RAS().fit([problem.train])
    rows = problem.test
    shaped: Tensor = shaping(rows)
    torch.testing.assert_close(shaping(3 * rows), shaped, rtol=1e-6, atol=1e-6)
    assert torch.equal(shaping(rows.flip(1)), shaped.flip(1))
    steps = shaped.gather(1, rows.argsort(dim=1)).diff(dim=1)
    assert (steps > -1e-6).all()
    constant = shaping(torch.full((1, 48), 2.5))
    torch.testing.assert_close(constant, torch.full((1, 48), float(shaping.get_buffer("profile").mean())))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("vra:60", r"must be 2 numbers, lower,upper, got '60'"),
        ("vra:60,90,95", "must be 2 numbers"),
        ("vra:60,most", "must be 2 numbers, lower,upper, could not convert"),
        ("vra:90,60", "lower must be at most upper, got 90.0 and 60.0"),
        ("vra:-1,60", r"lower must lie in 0\.\.100, got -1"),
        ("vra-clip:1,101", r"upper must lie in 0\.\.100, got 101"),
        ("vra-at:2,1", "low must be at most high, got 2.0 and 1.0"),
        ("vra-at:nan,1", "low must be a finite number, got nan"),
        ("ras:5", "RAS has no numbers after a colon"),
        ("react:80,90", "must be a percentile, got '80,90'"),
        ("vrra", "did you mean 'vra'"),
    ],
)
def test_wrong_texts_are_named(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_shaping(spec)


@pytest.mark.parametrize("spec", ["vra", "vra-clip", "vra-clip-units", "ras"])
def test_what_has_not_learnt_refuses(spec: str, problem: Problem) -> None:
    shaping: Shaping = parse_shaping(spec)
    with pytest.raises(NotFittedError, match=r"has not learnt its (low|profile) yet"):
        shaping(problem.test)
    with pytest.raises(InputError, match="needs a pass of its own"):
        th.Energy(shaping=spec).fit(iter([problem.train]), head=problem.head)


@pytest.mark.parametrize("spec", ["vra", "vra-clip-units", "ras"])
def test_what_was_learnt_of_other_features_is_refused(spec: str, problem: Problem) -> None:
    shaping = parse_shaping(spec)
    assert isinstance(shaping, Learner)
    shaping.fit([problem.train[:, :1]])
    with pytest.raises(InputError, match="of shape \\(1,\\), but features have width 48"):
        shaping(problem.test)
