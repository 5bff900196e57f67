"""Sets that share rows are known by their numbers, whatever file, precision and order they come in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from theodolite.benchmarks import ArraySet
from theodolite.benchmarks.feature_sets import FileSet
from theodolite.benchmarks.row_keys import KEPT, RowKeys


def rows(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 7, generator=torch.Generator().manual_seed(seed))


def keys(features: Tensor, kept: int | None = KEPT) -> RowKeys:
    return RowKeys.of(ArraySet(features), kept)


@pytest.mark.parametrize("count", [50, 5_000])
def test_the_same_rows_in_another_order_and_file(count: int, tmp_path: Path) -> None:
    mine = rows(count)
    path = tmp_path / "another-name.safetensors"
    save_file({"features": mine.flip(0).contiguous(), "more": torch.zeros(3)}, path)
    assert keys(mine).shared(RowKeys.of(FileSet(path), None)) == 1


@pytest.mark.parametrize("kept", [KEPT, None])
def test_a_rounded_copy_is_the_same(kept: int | None) -> None:
    mine = rows(2_000)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        assert keys(mine).shared(keys(mine.to(dtype), kept)) == 1
        assert keys(mine.to(dtype)).shared(keys(mine, kept)) == 1


def test_other_rows_are_others() -> None:
    assert keys(rows(3_000)).shared(keys(rows(3_000, seed=1), None)) == 0


def test_a_part_of_the_other_is_found_from_either_side() -> None:
    mine, other = rows(4_000), rows(20_000, seed=1)
    mixed = torch.cat([other, mine[:400]])
    assert keys(mine).shared(keys(mixed, None)) == pytest.approx(0.1, abs=0.06)
    assert keys(mine).shared(keys(mine[:400], None)) == 1
    assert keys(mine[:400]).shared(keys(mine, None)) == 1


def test_other_last_digits_are_the_same_row() -> None:
    """A model gives a picture other last digits in a batch of another size."""
    mine = rows(2_000)
    nearly = mine * (1 + 2e-7 * torch.randn(mine.shape, generator=torch.Generator().manual_seed(2)))
    assert not torch.equal(mine, nearly)
    assert keys(mine).shared(keys(nearly, None)) > 0.95


@pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0.0), (1e9, 0.0), (1e-4, 100.0)])
def test_rows_that_half_precision_cannot_tell_apart_are_not_all_one(scale: float, shift: float) -> None:
    mine, other = (scale * rows(500, seed) + shift for seed in (0, 1))
    assert keys(mine).shared(keys(other, None)) == 0
    assert keys(mine).shared(keys(mine, None)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_small_set_within_a_large_one_is_found(seed: int) -> None:
    large = rows(30_000, seed)
    assert keys(large).shared(keys(large[:50], None)) == 1


def test_what_is_kept_is_bounded() -> None:
    found = keys(rows(5_000)).precisions
    assert {len(kept.keys.split()) for kept in found.values()} == {KEPT}
    assert not found["float32"].all
    assert keys(rows(10)).precisions["float32"].all
