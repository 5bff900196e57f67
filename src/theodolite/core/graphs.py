"""Graphs: what PyTorch records of our operations, for `torch.jit.trace`, `torch.export` and `torch.compile`.

A graph is recorded once and then works on batches that nobody has seen. It can neither raise nor choose a
branch by the numbers at hand: where code does so, it asks `recording` and takes a way without a choice to the
same numbers.
"""

from __future__ import annotations

import warnings

import torch
from torch.jit import TracerWarning, is_tracing  # type: ignore[attr-defined]

# Not there before PyTorch 2.7, where a graph is exported all the same.
_is_exporting = getattr(torch.compiler, "is_exporting", bool)


def recording() -> bool:
    """Whether operations are being recorded rather than run for their results."""
    return bool(is_tracing() or torch.compiler.is_compiling())  # type: ignore[no-untyped-call]


def exporting() -> bool:
    """Whether the graph is to become a file, which knows no types of ours."""
    return bool(_is_exporting())


def fixed(size: int) -> int:
    """A size that does not change with the batch (a width, the rows of a bank) as a plain number.

    Tracing would follow it as if it did, and warn when it is looked at.
    """
    if not is_tracing():  # type: ignore[no-untyped-call]
        return int(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        return int(size)
