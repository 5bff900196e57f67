"""Rows to calibrate on that are fitted on as well: refused or said, whatever they are read from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset

from made_guards import clusters, head
from made_stores import store_of
from small_models import Tiny
from theodolite import KNN
from theodolite.core.errors import CalibrationWarning, InputError
from theodolite.features import Capture
from theodolite.guard import Guard
from theodolite.guard.holdout import in_share
from theodolite.guard.repeated import RowCheck
from theodolite.reference.head import Head

FITTED_ON = "rows to calibrate on are fitted on as well"


def rows(count: int, seed: int, width: int = 16) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def loader(*parts: Tensor, batch_size: int = 64) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*parts), batch_size=batch_size)


def said(fit: Callable[[], Guard]) -> list[str]:
    """What a fit warns of the rows it calibrates on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if FITTED_ON in str(one.message)]


def test_data_given_twice_is_said() -> None:
    """Every row to fit on has a twin, so nothing can be refused: this is what it looks like."""
    known = rows(1_000, 0)
    twice = torch.cat([known, known])
    with pytest.warns(CalibrationWarning, match=rf"500 of 500 {FITTED_ON}, and 100\.0 % of 2,000 rows"):
        Guard.fit(twice, detector="knn?k=1", calibration=known[:500].clone())
    with pytest.warns(CalibrationWarning, match=r"different samples have equal features, or the same data"):
        Guard.fit(twice, detector="knn?k=1")
    assert not said(lambda: Guard.fit(known, detector="knn?k=1"))
    assert not said(lambda: Guard.fit(known, detector="knn?k=1", calibration=rows(500, 1)))


def test_the_own_share_counts_the_rows_that_are_on_both_sides() -> None:
    """Against a count of equal rows by NumPy; a sample under one id stays on one side."""
    known = rows(400, 0)
    twice = torch.cat([known, known, rows(300, 1)])
    ids = torch.cat([torch.arange(400), torch.arange(400), torch.arange(400, 700)])
    assert not said(lambda: Guard.fit(twice, detector="knn?k=1", ids=ids))
    # Read three times: by the shaping that learns, by the fit and by the calibration.
    (told,) = said(lambda: Guard.fit(twice, head=wide_head(), detector="energy+react:90"))
    held_out = in_share(torch.arange(1_100), 0.2).numpy()
    fitted_on = {row.tobytes() for row in twice.numpy()[~held_out]}
    found = sum(row.tobytes() in fitted_on for row in twice.numpy()[held_out])
    assert told.startswith(f"{found} of {held_out.sum()} {FITTED_ON}")
    assert f"of {(~held_out).sum()} rows to fit on" in told


def wide_head() -> Head:
    return Head(rows(5, 7))


def test_fewer_than_can_be_refused_are_said() -> None:
    known = rows(1_000, 0)
    for count in (1, 9):
        mixed = torch.cat([known[:count], rows(1_000 - count, 1)])
        with pytest.warns(CalibrationWarning, match=rf"^{count} of 1,000 {FITTED_ON}"):
            Guard.fit(known, detector="knn", calibration=mixed)


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16, torch.float32])
def test_a_copy_in_another_precision_is_the_same_data(narrow: torch.dtype) -> None:
    """On either side, as it is or cast back, in an odd width, and with the other sign of zero."""
    exact = rows(600, 0, 13).double()
    exact[:, 3] = exact[:, 3].clamp(min=0)
    exact += rows(600, 1, 13).double() * 1e-9 * (exact != 0)
    if narrow != torch.float32:
        exact = exact.float()
    copy = exact.to(narrow)
    copy[:, 3] = torch.where(copy[:, 3] == 0, -copy[:, 3], copy[:, 3])
    others = rows(600, 2, 13)
    for one, other in ((exact, copy), (copy, exact), (exact, copy.double()), (copy.float(), exact)):
        with pytest.raises(InputError, match=f"200 of 200 {FITTED_ON}"):
            Guard.fit(one, detector="mds", labels=torch.arange(600) % 3, calibration=other[:200])
        assert RowCheck([one], others.to(other.dtype), None).doubt() is None


def test_numbers_that_only_float64_tells_apart_are_different() -> None:
    """Also where they are too small, or too large, for float32."""
    for scale in (1e-300, 1e300):
        known, fresh = rows(300, 0).double() * scale, rows(300, 1).double() * scale
        assert RowCheck([known], fresh, None).doubt() is None
        with pytest.raises(InputError, match=FITTED_ON):
            RowCheck([known], known.flip(0)[:50], None)
    near = 1 + rows(300, 0).double() * 1e-12
    assert RowCheck([near], 1 + rows(300, 1).double() * 1e-12, None).doubt() is None
    # Batches of two precisions are compared in the narrower one.
    with pytest.raises(InputError, match=f"100 of 100 {FITTED_ON}"):
        RowCheck([[rows(90, 2).double() / 3, rows(100, 3)]], [rows(100, 3).double()], None)


@pytest.mark.parametrize(
    "given",
    [
        lambda known: loader(known),
        lambda known: (part for part in known.split(100)),
        lambda known: iter([known]),
        lambda known: DataLoader(TensorDataset(known), batch_size=50, shuffle=True),
    ],
    ids=["loader", "generator", "iterator", "shuffled"],
)
def test_what_is_read_in_passes_is_compared_as_well(given: Callable[[Tensor], Any]) -> None:
    """On either side, and on both."""
    known, fresh = rows(600, 0), rows(200, 1)
    for features, calibration in (
        (given(known), known[:200].numpy().copy()),
        (known, given(known[:200])),
        (given(known), given(known[:200])),
        (given(known), given(torch.cat([fresh, known[:20]]))),
    ):
        with pytest.raises(InputError, match=rf"20?0? of 2[02]0 {FITTED_ON}"):
            Guard.fit(features, detector="knn?k=1", calibration=calibration)
    guard = Guard.fit(given(known), detector="knn?k=1", calibration=given(fresh))
    assert not said(lambda: Guard.fit(given(known), detector="knn?k=1", calibration=given(fresh)))
    plain = Guard.fit(known, detector="knn?k=1", calibration=fresh)
    assert torch.allclose(guard.calibration.sorted_scores, plain.calibration.sorted_scores)


def test_pictures_in_loaders_are_recognised_by_their_features() -> None:
    """In batches of other sizes, where a model's last digits may differ."""
    images = torch.rand(300, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    data, capture = TensorDataset(images), Capture(Tiny())
    capture(images[:2])

    def fitted(first: range, second: range) -> Guard:
        train, val = DataLoader(Subset(data, first), batch_size=64), DataLoader(Subset(data, second), 7)
        return Guard.fit(
            capture.over(train), head=capture.head, detector="energy", calibration=capture.over(val)
        )

    with pytest.raises(InputError, match=f"of 100 {FITTED_ON}"):
        fitted(range(200), range(150, 250))
    assert len(fitted(range(200), range(200, 300)).calibration) == 100


def test_last_digits_do_not_hide_a_copy_that_a_pass_gives() -> None:
    known = rows(500, 0, 64)
    nearly = known * (1 + 1e-7 * rows(500, 1, 64))
    assert not torch.equal(known, nearly)
    with pytest.raises(InputError, match=FITTED_ON):
        Guard.fit(loader(known), detector="knn", calibration=nearly[:200])


def test_a_bank_on_disk_is_compared_with_a_loader(tmp_path: Path) -> None:
    features, labels = clusters(400, 0)
    store = store_of(tmp_path / "store", features, labels, head())
    with pytest.raises(InputError, match=f"100 of 100 {FITTED_ON}"):
        Guard.fit(
            clusters(300, 1)[0],
            head=head(),
            detector=KNN(k=1, store=store.path),
            calibration=loader(features[:100]),
        )


def test_a_fit_sees_what_it_was_given() -> None:
    """Arrays stay arrays, of which a shaping learns exactly; what can be read once stays so."""
    known, fresh = rows(600, 0), rows(200, 1)
    by_loader, by_array = (
        Guard.fit(known, head=wide_head(), detector="energy+react:90", calibration=calibration)
        for calibration in (loader(fresh, batch_size=200), fresh)
    )
    assert torch.equal(by_loader.calibration.sorted_scores, by_array.calibration.sorted_scores)
    with pytest.raises(InputError, match="an iterator that can be read once"):
        Guard.fit(iter([known]), head=wide_head(), detector="energy+react:90", calibration=fresh)


def test_no_rows_are_an_error_of_ours() -> None:
    known: Any = rows(200, 0)
    empty: tuple[Any, ...] = ([], (), iter([]))
    for nothing in empty:
        with pytest.raises(InputError, match=r"features (is|are) empty"):
            Guard.fit(nothing, detector="knn", calibration=known)
    with pytest.raises(InputError, match="calibration is empty"):
        Guard.fit(known, detector="knn", calibration=[])
    with pytest.raises(InputError, match="no sample was held out"):
        Guard.fit(known, detector="knn", calibration=iter([]))


def test_per_class_is_a_truth_or_a_whole_number() -> None:
    features, _ = clusters(2_000, 0)
    fresh, _ = clusters(1_000, 1)

    def fitted(per_class: Any) -> Guard:
        return Guard.fit(features, head=head(), detector="energy", calibration=fresh, per_class=per_class)

    for given, meant in ((np.True_, True), (np.False_, False), (np.int64(150), 150)):
        one, other = fitted(given).calibration, fitted(meant).calibration
        assert type(one) is type(other)
        assert getattr(one, "representatives", None) == getattr(other, "representatives", None)
    for wrong in ("yes", 2.5, None, [1]):
        with pytest.raises(InputError, match="per_class must be True, False or a whole number"):
            fitted(wrong)
