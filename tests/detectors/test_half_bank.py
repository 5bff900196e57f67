"""Banks in half precision: half the memory and the file, nearly the same scores, never a silent loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import theodolite as th
from synthetic import make_problem
from theodolite.core.errors import InputError
from theodolite.reference.head import unit_rows

PROBLEM = make_problem(rows=600)
NAMES = ("knn", "nnguide", "csi")


def fitted(name: str, **options: object) -> th.Detector:
    return th.create(name, **options).fit(PROBLEM.train, PROBLEM.labels, head=PROBLEM.head)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_rounded_bank(name: str) -> None:
    full, half = fitted(name), fitted(name, half_bank=True)
    assert half.bank.dtype == torch.float16
    torch.testing.assert_close(half.bank, full.bank.half(), rtol=0, atol=0)
    rows = torch.cat([PROBLEM.test, PROBLEM.ood])
    scores, expected = half.score(rows), full.score(rows)
    assert scores.dtype == torch.float32
    assert float((scores - expected).abs().max() / expected.std()) < 5e-3
    if name == "knn":
        apart = torch.cdist(unit_rows(rows.double()), dict(half.named_buffers())["bank"].double())
        torch.testing.assert_close(scores.double(), -apart.sort().values[:, 49], rtol=1e-5, atol=1e-6)
    else:
        full.bank = full.bank.half().float()
        torch.testing.assert_close(scores, full.score(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_half_as_large_and_read_back(name: str, tmp_path: Path) -> None:
    options = {} if name == "csi" else {"fraction": 1.0}
    full, half = fitted(name, **options), fitted(name, half_bank=True, **options)
    full.save(tmp_path / "full")
    half.save(tmp_path / "half")
    saved = (tmp_path / "full").stat().st_size - (tmp_path / "half").stat().st_size
    assert abs(saved - PROBLEM.train.nbytes / 2) < 200
    again = th.load(tmp_path / "half")
    assert again.options()["half_bank"] is True
    torch.testing.assert_close(again.score(PROBLEM.ood), half.score(PROBLEM.ood), rtol=0, atol=0)


def test_moving_or_casting_keeps_the_precision() -> None:
    half = fitted("knn", half_bank=True)
    assert half.double().bank.dtype == torch.float16


def test_features_that_float16_cannot_tell_apart_are_refused() -> None:
    centre = torch.ones(48)
    close = centre + 1e-2 * torch.randn(600, 48, generator=torch.Generator().manual_seed(0))
    for name in ("knn", "csi"):
        with pytest.raises(InputError, match="half_bank=True would lose what tells these features apart"):
            th.create(name, half_bank=True).fit(close)
    th.KNN(half_bank=True).fit(centre.expand(20, -1))  # copies of one row: nothing is lost


@pytest.mark.parametrize("scale", [1e6, 1e-7], ids=["beyond its largest", "below its smallest"])
def test_entries_outside_the_range_of_float16_are_refused(scale: float) -> None:
    """Entries are directions times energies, log-sums of two logits that begin at log ½."""
    scaled = th.Head(PROBLEM.head.weight[:2] * scale, torch.full((2,), 0.5).log())
    with pytest.raises(InputError, match="half_bank=True would lose what tells these features apart"):
        th.NNGuide(half_bank=True, fraction=1.0).fit(PROBLEM.train, PROBLEM.labels % 2, head=scaled)


@pytest.mark.parametrize("name", ["knn", "nnguide"])
def test_a_store_has_its_own_precision(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="half_bank is for a bank in memory"):
        th.create(name, store=tmp_path, half_bank=True)
