"""Products with the same matrix over and over: laid out in advance as oneDNN reads it, where PyTorch has it.

A search through a bank multiplies every block with the same queries, the metric every row with the same
factor. PyTorch's own product on a CPU (MKL) rearranges the matrix each time. That took 1.1 to 1.5 times as
long for the blocks of a bank on AMD processors; a triangular factor of D = 2,048 takes 0.67 ms instead of
0.87 for one row, and 1.29 instead of 1.63 for 32 (2 cores, cold caches).

Both sum the same numbers, in another order: the last digits differ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.graphs import recording

# The operators are PyTorch's own, but undocumented: they are tried on a row before they are relied on.
_AGREEMENT = 1e-4
# Fewer queries are a pass over the bank, at the speed of memory.
_FEW = 16


def lay_out(matrix: Tensor, rows: int) -> Tensor | None:
    """A float32 matrix (M, K) for `laid_out_product` with about so many rows; None where there is no layout.

    It is there on x86 processors; not for graphs, which know it not.
    """
    if (
        matrix.device.type != "cpu"
        or matrix.dtype != torch.float32
        or torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512")
        or not torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    ):
        return None
    signs = torch.ones(1, matrix.shape[1])
    signs[:, ::2] = -1
    try:
        layout: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), rows)
        found = laid_out_product(signs, layout)
    except (AttributeError, RuntimeError):
        return None
    plain, size = signs @ matrix.T, matrix.abs().sum(dim=1)
    # What is no number in the matrix is none in both.
    wrong = (found - plain).abs() > _AGREEMENT * size if found.shape == plain.shape else torch.tensor(True)
    return None if bool(wrong.any()) else layout


def laid_out_product(rows: Tensor, layout: Tensor) -> Tensor:
    """rows (N, K) @ matrix.T, for what `lay_out` made of the matrix."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows.contiguous(), layout, None, "none", [], "")
    return product


class Products:
    """⟨x, q⟩ of the rows of a block with fixed queries, as (rows, queries).

    ``fastest`` is oneDNN's where it is there, for whoever does not mind the last digits.
    """

    def __init__(self, queries: Tensor, rows: int, *, fastest: bool) -> None:
        self._queries = queries
        # A graph must not ask how many rows there are: it would hold for so many only.
        fastest = fastest and not recording() and len(queries) >= _FEW
        self._layout = lay_out(queries, rows) if fastest else None

    def __call__(self, block: Tensor) -> Tensor:
        if self._layout is None:
            return torch.mm(block, self._queries.T)
        return laid_out_product(block, self._layout)
