"""Parts that were collected in two ways, compared."""

from __future__ import annotations

import torch

from theodolite import Part
from theodolite.reference.storage import pack_statistics


def assert_same_statistics(one: Part, two: Part) -> None:
    """To 1e-10 of the largest entry; what was drawn is the same, bit by bit."""
    assert one.fitted_on == two.fitted_on
    assert one.samples.count == two.samples.count
    assert torch.equal(one.held_out.ids.sort().values, two.held_out.ids.sort().values)
    for mine, its in zip(one.references, two.references, strict=True):
        left, right = (pack_statistics(reference.statistics, "") for reference in (mine, its))
        assert left.keys() == right.keys()
        for name, tensor in left.items():
            if tensor.dtype == torch.float64:
                largest = float(tensor.abs().max())
                torch.testing.assert_close(right[name], tensor, rtol=0, atol=1e-10 * largest)
            else:
                assert torch.equal(right[name], tensor), name
