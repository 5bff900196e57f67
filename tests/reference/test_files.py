"""References as files: bit by bit the same, merged in any way the whole, and never merged wrongly."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from theodolite import KNN, MDS, ORA, Head, Needs, Reference
from theodolite.core.errors import FormatError, InputError
from theodolite.reference.bank import ALL_ROWS
from theodolite.reference.reference import collect_views
from theodolite.reference.view import View

WIDTH, CLASSES, ROWS = 6, 4, 90
EVERYTHING = Needs(
    mean=True,
    class_means=True,
    class_spread=True,
    class_accuracy=True,
    scatter=True,
    extremes=True,
    bank=20,
    bank_share=0.1,
    correct_means=True,
    softmax_means=True,
    likelihood=True,
)
several = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def head(seed: int = 0) -> Head:
    return Head(torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(seed)))


def rows(seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    features = 100 + 3 * torch.randn(ROWS, WIDTH, generator=rng, dtype=dtype)
    return features, torch.randint(CLASSES, (ROWS,), generator=rng), torch.arange(ROWS)


def collected(
    which: Tensor | slice = slice(None), *, needs: Needs = EVERYTHING, of: Head | None = None, seed: int = 0
) -> Reference:
    features, labels, ids = (column[which] for column in rows())
    return Reference.collect(features, labels, head=of or head(), needs=needs, ids=ids, seed=seed)


def tensors(reference: Reference) -> dict[str, Tensor | None]:
    known = reference.statistics
    samples = reference.samples
    return {
        **{name: getattr(known.moments, name) for name in ("counts", "means", "within", "spread")},
        **{name: getattr(known, name) for name in ("correct", "maximum", "minimum")},
        **{
            f"bank {name}": getattr(known.bank, name) for name in ("features", "labels", "ids", "class_sizes")
        },
        **{
            f"{part} {name}": getattr(getattr(known.answers, part), name, None)
            for part, name in (
                ("right", "counts"),
                ("right", "means"),
                ("softmax", "counts"),
                ("softmax", "means"),
                ("likelihood", "sums"),
            )
        },
        "samples": None if samples is None else samples.values,
        "weight": None if reference.head is None else reference.head.weight,
    }


def assert_same(one: Reference, other: Reference, tolerance: float = 0.0) -> None:
    assert (one.count, one.view, one.statistics.needs) == (other.count, other.view, other.statistics.needs)
    assert one.statistics.seed == other.statistics.seed
    for (name, mine), its in zip(tensors(one).items(), tensors(other).values(), strict=True):
        if mine is None or its is None:
            assert mine is its, name
        elif tolerance and mine.is_floating_point() and "bank" not in name:
            torch.testing.assert_close(mine, its, rtol=tolerance, atol=1e-9)
        else:
            assert torch.equal(mine, its), name
            assert mine.dtype == its.dtype, name


needs = st.builds(
    Needs,
    mean=st.booleans(),
    class_means=st.booleans(),
    class_spread=st.booleans(),
    class_accuracy=st.booleans(),
    scatter=st.booleans(),
    extremes=st.booleans(),
    bank=st.sampled_from((0, 5, ALL_ROWS)),
    bank_share=st.sampled_from((0.0, 0.3)),
    correct_means=st.booleans(),
    softmax_means=st.booleans(),
    likelihood=st.booleans(),
)


@several
@given(needs, st.sampled_from((torch.float32, torch.float64)), st.booleans(), st.booleans())
def test_a_reference_comes_back_bit_by_bit(
    tmp_path: Path, asked: Needs, dtype: torch.dtype, headless: bool, numbered: bool
) -> None:
    features, labels, ids = rows(1, dtype)
    own = None if headless else Head(head().weight, unit_features=numbered)
    reference = Reference.collect(
        features, labels, head=own, needs=asked, ids=ids if numbered else None, seed=7
    )
    reference.save(tmp_path / "a.safetensors")
    found = Reference.load(tmp_path / "a.safetensors")
    assert_same(found, reference)
    assert (found.head is None) == headless
    found.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@several
@given(
    st.permutations(range(ROWS)),
    st.lists(st.integers(1, ROWS - 1), max_size=6, unique=True),
    st.randoms(use_true_random=False),
)
def test_parts_in_any_order_and_grouping_are_the_whole(
    tmp_path: Path, order: list[int], cuts: list[int], random: object
) -> None:
    edges = [0, *sorted(cuts), ROWS]
    parts = [collected(torch.tensor(order[start:stop])) for start, stop in pairwise(edges)]
    for place, part in enumerate(parts):
        part.save(tmp_path / f"{place}.safetensors")
    loaded = [Reference.load(tmp_path / f"{place}.safetensors") for place in range(len(parts))]
    assert_same(Reference.merged(iter(loaded)), collected(), 1e-10)
    while len(loaded) > 1:  # any two, until one is left
        random.shuffle(loaded)  # type: ignore[attr-defined]
        loaded = [loaded[0] + loaded[1], *loaded[2:]]
    assert_same(loaded[0], collected(), 1e-10)


@pytest.mark.parametrize("detector", [ORA(), MDS(), KNN(k=3, fraction=0.5)], ids=lambda one: one.record.name)
def test_a_detector_fitted_on_loaded_parts_is_that_of_the_whole(
    detector: ORA | MDS | KNN, tmp_path: Path
) -> None:
    features, labels, ids = rows()
    for place, part in enumerate((slice(0, 31), slice(31, None))):
        reference = detector.collect(features[part], labels[part], head=head(), ids=ids[part])
        reference.save(tmp_path / f"{place}.safetensors")
    merged = Reference.merged(Reference.load(tmp_path / f"{place}.safetensors") for place in (0, 1))
    expected = type(detector)(**detector.options()).fit(features, labels, head=head(), ids=ids)  # type: ignore[arg-type]
    torch.testing.assert_close(detector.fit(merged).score(features), expected.score(features))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: collected(slice(40, None), of=head(1)), "different heads"),
        (lambda: collected(slice(40, None), needs=replace(EVERYTHING, scatter=False)), "do not match"),
        (lambda: collected(slice(40, None), seed=1), "seed 0 against"),
        (lambda: collected(slice(0, 40)), "share samples: 40 ids"),
        (lambda: collected(slice(39, None)), "share samples: 1 ids"),
        (lambda: Reference(head(), collected(slice(40, None)).statistics, "scale:90"), "different features"),
    ],
    ids=["head", "needs", "seed", "the same", "overlap", "view"],
)
def test_what_does_not_belong_together_is_refused(other: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _ = collected(slice(0, 40)) + other()  # type: ignore[operator]


def test_another_width_is_refused() -> None:
    one, other = (Reference.collect(torch.ones(3, width), needs=Needs(mean=True)) for width in (4, 5))
    with pytest.raises(InputError, match="width 4"):
        _ = one + other


def test_without_ids_nothing_is_known_of_the_samples() -> None:
    features, labels, _ = rows()
    lean = Needs(mean=True)
    half = Reference.collect(features[:40], labels[:40], head=head(), needs=lean)
    assert half.samples is None
    assert (half + half).count == 80
    numbered = Reference.collect(features[40:], head=head(), needs=lean, ids=torch.arange(40, ROWS))
    assert (half + numbered).samples is None


def test_an_id_that_comes_twice_is_refused() -> None:
    features, labels, ids = rows()
    ids[5] = ids[4]
    with pytest.raises(InputError, match="ids name 1 samples or more twice"):
        Reference.collect(features, labels, head=head(), needs=Needs(mean=True), ids=ids)


def test_a_fit_keeps_no_account() -> None:
    features, _, _ = rows()
    assert (
        collect_views(features, head=head(), views=[View("plain", lambda z: z, Needs(mean=True))])[0].samples
        is None
    )


def test_a_head_that_came_later_is_kept(tmp_path: Path) -> None:
    reference = Reference.collect(rows()[0], needs=Needs(mean=True)).seen_through(head())
    reference.save(tmp_path / "a.safetensors")
    assert_same(Reference.load(tmp_path / "a.safetensors"), reference)


def test_damage_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "reference.safetensors"
    collected().save(path)
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises((FormatError, InputError)):
            Reference.load(path)
    path.write_bytes(content[:-8])
    with pytest.raises(FormatError):
        Reference.load(path)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    ORA().fit(rows()[0], head=head()).save(tmp_path / "detector.safetensors")
    with pytest.raises(FormatError, match="expected theodolite-reference/1"):
        Reference.load(tmp_path / "detector.safetensors")
