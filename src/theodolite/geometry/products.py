"""Products of many rows with the same few, as fast as the machine has them.

A search through a bank is a product with the same queries for every block. oneDNN lays the queries out once
and keeps to one speed; PyTorch's own product on a CPU (MKL) lays them out for every block, and took 1.1 to
1.5 times as long on AMD processors.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.graphs import recording

# Fewer queries are a pass over the bank, at the speed of memory.
_FEW = 16


class Products:
    """⟨x, q⟩ of the rows of a block with fixed queries, as (rows, queries).

    ``fastest`` is oneDNN's where it is there. Both sum the same numbers, in another order: the last digits
    differ, and with them the last digits of a score that is such a product.
    """

    def __init__(self, queries: Tensor, rows: int, *, fastest: bool) -> None:
        self._queries = queries
        self._laid_out: Tensor | None = None
        if fastest and _has_onednn(queries):
            self._laid_out = torch.ops.mkldnn._reorder_linear_weight(queries.contiguous(), rows)

    def __call__(self, block: Tensor) -> Tensor:
        if self._laid_out is None:
            return torch.mm(block, self._queries.T)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(block, self._laid_out, None, "none", [], "")
        return product


def _has_onednn(queries: Tensor) -> bool:
    """Whether oneDNN's layout is there: for float32 on x86 processors, outside of graphs."""
    return (
        not recording()
        and queries.device.type == "cpu"
        and queries.dtype == torch.float32
        and len(queries) >= _FEW
        and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
