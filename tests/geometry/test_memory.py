"""The table of all boundaries is the only thing of its size, 8·C² bytes, also while it is made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from theodolite import Head
from theodolite.geometry import triangle
from theodolite.geometry.boundaries import Boundaries
from theodolite.geometry.inner_product import Mahalanobis, spectrum
from theodolite.geometry.triangle import pairwise_lengths

CLASSES, WIDTH = 300, 8


class LargeResults(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operation that makes new memory of at least ``entries`` numbers."""

    def __init__(self, entries: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = entries
        self.made: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = {part.untyped_storage().data_ptr() for part in args if isinstance(part, Tensor)}
        result = func(*args, **(kwargs or {}))
        if (
            isinstance(result, Tensor)
            and result.numel() >= self.entries
            and result.untyped_storage().data_ptr() not in known
        ):
            self.made.append(str(func))
        return result


def weights() -> Tensor:
    """Some classes twice, some nearly twice."""
    rows = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[100:110] = rows[:10]
    rows[110:120] = rows[:10] + 1e-9
    return rows


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triangle, "_BLOCK_ENTRIES", 7 * CLASSES)


@pytest.mark.parametrize("kind", ["euclidean", "mahalanobis"])
def test_one_table_and_no_other(kind: str) -> None:
    data = torch.randn(500, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    metric = None if kind == "euclidean" else Mahalanobis(spectrum(torch.cov(data.T), len(data)))
    head = Head(weights())
    with LargeResults(CLASSES**2 // 4) as seen:
        Boundaries(head, metric)
    assert seen.made == ["aten.empty.memory_format"]


def test_blocks_give_what_differences_give() -> None:
    rows = weights()
    direct = torch.linalg.vector_norm(rows[:, None] - rows[None], dim=2)
    lengths = pairwise_lengths(rows)
    torch.testing.assert_close(lengths, direct, rtol=1e-7, atol=0)
    assert bool((lengths[100:110].diagonal() == 0).all())
    assert bool((lengths.diagonal() == 0).all())
