"""Principal directions against a singular value decomposition of the rows, many and few."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from theodolite import Needs, Reference
from theodolite.core.errors import InputError
from theodolite.geometry.principal import explaining, principal

NEEDS = Needs(mean=True, scatter=True)


def rows(count: int, width: int, rank: int) -> Tensor:
    rng = torch.Generator().manual_seed(4)
    basis = torch.randn(rank, width, generator=rng, dtype=torch.float64)
    sizes = 0.7 ** torch.arange(rank, dtype=torch.float64)
    return 3 + (torch.randn(count, rank, generator=rng, dtype=torch.float64) * sizes) @ basis


@pytest.mark.parametrize(("count", "rank"), [(300, 40), (300, 12), (25, 40), (2, 40), (39, 5)])
@pytest.mark.parametrize("share", [0.3, 0.85, 0.999])
def test_few_rows_and_many(count: int, rank: int, share: float) -> None:
    data = rows(count, 40, rank)
    found = principal(Reference.collect(data, needs=NEEDS), share)
    centred = (data - data.mean(dim=0)).numpy()
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    variances = sizes**2 / count
    kept = int(np.argmax(np.cumsum(variances) / variances.sum() >= share)) + 1
    assert found.directions.shape == (40, kept)
    projector = directions[:kept].T @ directions[:kept]
    np.testing.assert_allclose((found.directions @ found.directions.T).numpy(), projector, atol=1e-8)
    np.testing.assert_allclose(float(found.outside), variances[kept:].sum(), atol=1e-12 * variances.sum())


def test_rows_that_are_all_alike_have_no_direction() -> None:
    data = torch.full((7, 5), 1 / 3, dtype=torch.float64)
    assert principal(Reference.collect(data, needs=NEEDS), 0.9).directions.shape == (5, 0)
    assert principal(Reference.collect(data[:1], needs=NEEDS), 0.9).directions.shape == (5, 0)


def test_a_number_of_directions() -> None:
    reference = Reference.collect(rows(300, 40, 40), needs=NEEDS)
    assert principal(reference, 0.5, 7).directions.shape == (40, 7)
    with pytest.raises(InputError, match=r"dimension must be at most 40, .* the 300 rows vary, got 70"):
        principal(reference, 0.5, 70)


def test_explaining() -> None:
    variances = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    shares = {0.1: 1, 0.4: 1, 0.41: 2, 0.7: 2, 0.9: 3, 0.91: 4, 1.0: 4}
    assert {share: explaining(variances, share) for share in shares} == shares
