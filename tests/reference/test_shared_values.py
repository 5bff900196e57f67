"""Percentiles of units in a stream where many rows share a value: it is met, not passed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from theodolite.core.errors import FormatError
from theodolite.detectors.shaping import VRA
from theodolite.reference.unit_percentiles import UnitHistograms


def stream(rows: Tensor) -> UnitHistograms:
    look = UnitHistograms()
    for part in torch.split(rows, 64):
        look.update(part)
    return look


def whole_numbers(scale: float = 1.0) -> Tensor:
    numbers = torch.randint(0, 120, (500, 6), generator=torch.Generator().manual_seed(0))
    return scale * numbers.float()


@pytest.mark.parametrize("percent", [0, 12.5, 60, 90, 100])
@pytest.mark.parametrize(
    "rows",
    [torch.full((500, 6), 0.5), torch.full((500, 6), -0.3), whole_numbers(), whole_numbers(0.037)],
    ids=["constant", "constant and negative", "whole numbers", "quantised"],
)
def test_shared_values_are_found_exactly(rows: Tensor, percent: float) -> None:
    expected = np.percentile(rows.double().numpy(), percent, axis=0)
    np.testing.assert_allclose(stream(rows).percentiles(percent), expected, rtol=1e-12)


def test_vra_keeps_what_lies_at_its_threshold() -> None:
    rows = torch.full((500, 6), 0.5)
    assert torch.equal(VRA().fit(torch.split(rows, 100))(rows), rows)
    saturated = whole_numbers().clamp_max(40)
    shaped = VRA(lower=60, upper=90).fit(torch.split(saturated, 100))(saturated)
    assert torch.equal(shaped, VRA(lower=60, upper=90).fit(saturated)(saturated))
    assert float((shaped == 40).double().mean()) > 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_halves_are_the_whole_and_travel(dtype: torch.dtype) -> None:
    rows = torch.randn(900, 7, dtype=dtype, generator=torch.Generator().manual_seed(2)).clamp_min(0)
    whole, halves = stream(rows), stream(rows[:301]) + stream(rows[301:])
    back = UnitHistograms.unpacked(halves.packed())
    for name, tensor in whole.packed().items():
        assert torch.equal(halves.packed()[name], tensor)
        assert torch.equal(back.packed()[name], tensor)
    exact = whole.exact_percentiles(80, lambda: [rows])
    torch.testing.assert_close(back.percentiles(80), exact, rtol=0.016, atol=1e-3)


def test_a_file_that_knows_bins_alone_is_read() -> None:
    rows = torch.rand(900, 7, generator=torch.Generator().manual_seed(2)) + 0.5
    old = {
        name: tensor for name, tensor in stream(rows).packed().items() if name in ("keys", "counts", "rows")
    }
    look = UnitHistograms.unpacked(old)
    exact = look.exact_percentiles(80, lambda: [rows])
    torch.testing.assert_close(look.percentiles(80), exact, rtol=0.016, atol=0)
    merged = UnitHistograms.unpacked((look + stream(rows)).packed())
    torch.testing.assert_close(merged.percentiles(80), exact, rtol=0.016, atol=0)


@pytest.mark.parametrize("name", ["least", "most", "at_least", "at_most"])
def test_values_of_other_bins_are_refused(name: str) -> None:
    packed = stream(whole_numbers()).packed()
    packed[name] = packed[name] - 1_000
    with pytest.raises(FormatError, match="not those of their bins"):
        UnitHistograms.unpacked(packed)
