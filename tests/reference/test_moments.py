"""Moments in tiles, strips and half a scatter: the same numbers as float64 gives in one go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from theodolite import Head
from theodolite.core.errors import InputError
from theodolite.detectors.spec import parse_spec
from theodolite.reference import moments as module
from theodolite.reference.moments import Moments
from theodolite.reference.reference import Reference
from theodolite.reference.statistics import Needs


def made(count: int, width: int, groups: int, *, offset: float = 100.0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(width)
    labels = torch.randint(0, groups, (count,), generator=rng)
    rows = (
        torch.randn(count, width, generator=rng) + offset * torch.randn(groups, width, generator=rng)[labels]
    )
    return rows, labels


def scatter(rows: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Within groups, from centred rows."""
    centred = rows.copy()
    for label in np.unique(labels):
        centred[labels == label] -= rows[labels == label].mean(axis=0)
    return centred.T @ centred


@pytest.mark.parametrize("width", [3, 128, 300, 640])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_numpy(
    width: int, labelled: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles that do not divide the rows, rows with and without a gap, several blocks of columns."""
    monkeypatch.setattr(module, "_TILE_ENTRIES", 70 * width)
    rows, labels = made(1_000, width, 5)
    rows, labels = rows.to(dtype), labels if labelled else torch.zeros_like(labels)
    moments = Moments(width, 1, scatter=True, spread=True)
    for part in torch.split(torch.arange(1_000), 333):
        assert moments.update(rows[part], labels[part] if labelled else None)
    table, numbers = rows.double().numpy(), labels.numpy()
    expected = scatter(table, numbers)
    within = moments.within
    assert within is not None
    assert moments.spread is not None
    assert torch.equal(within, within.T)
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs(within.numpy() - expected).max() < 1e-10 * size.min()
    np.testing.assert_allclose(moments.mean, table.mean(axis=0), rtol=1e-11, atol=1e-11)
    for label in np.unique(numbers):
        own = table[numbers == label]
        np.testing.assert_allclose(moments.means[label], own.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.spread[label], own.var(axis=0).sum() * len(own), rtol=1e-10)


def test_a_mean_that_wanders_costs_no_digits() -> None:
    """Every batch far from those before: what the shift adds is in the products of the rows themselves."""
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(600, 9, generator=rng, dtype=torch.float64)
    rows[:, :3] += torch.arange(600, dtype=torch.float64)[:, None] ** 2
    moments = Moments(9, 1, scatter=True)
    for part in torch.split(rows, 7):
        moments.update(part)
    table = rows.numpy()
    expected = scatter(table, np.zeros(600, dtype=np.int64))
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert moments.within is not None
    assert (np.abs(moments.within.numpy() - expected) / size).max() < 1e-13


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("spec", ["ora", "mds", "knn", "maha+", "ora+react:90", "ora?centre=max"])
@pytest.mark.parametrize("unit", [False, True])
def test_what_is_no_number_is_refused_by_its_row(bad: float, spec: str, unit: bool) -> None:
    """Seen in sums that a fit takes anyhow, or looked for where a view might hide it."""
    rows, labels = made(300, 6, 3, offset=1.0)
    rows[217, 4] = bad
    head = Head(torch.eye(6)[:3], unit_features=unit)
    batches = [(rows[:200], labels[:200]), (rows[200:], labels[200:])]
    with pytest.raises(InputError, match=r"features hold NaN or infinity in row 217$"):
        parse_spec(spec).build().fit(batches, head=head)


def test_legal_numbers_whose_sum_overflows_are_no_infinity() -> None:
    rows = torch.full((40, 4), 1.7e308, dtype=torch.float64)
    reference = Reference.collect(rows, needs=Needs(mean=True))
    assert reference.count == 40
