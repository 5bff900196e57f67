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
# What records below Python is a mode of one thread: tensors without numbers, or operations written down.
_FAKE, _PROXY = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY


def recording() -> bool:
    """Whether this thread's operations are being recorded rather than run for their results.

    `torch.compiler.is_compiling` would say so to every thread while one records, and the others would flag
    what they must refuse. Each of these speaks of one thread: a trace, the modes of an export, and the
    compiler, which reads our code and takes `is_dynamo_compiling` for true; whoever calls it hears false.
    """
    return bool(
        is_tracing()  # type: ignore[no-untyped-call]
        or torch.compiler.is_dynamo_compiling()
        or torch._C._get_dispatch_mode(_FAKE) is not None
        or torch._C._get_dispatch_mode(_PROXY) is not None
    )


def exporting() -> bool:
    """Whether the graph that this thread records is to become a file, which knows no types of ours.

    PyTorch keeps this for the whole process: what one thread compiles while another exports may be written
    for a file too.
    """
    return recording() and bool(_is_exporting())


def fixed(size: int) -> int:
    """A size that does not change with the batch (a width, the rows of a bank) as a plain number.

    Tracing would follow it as if it did, and warn when it is looked at.
    """
    if not is_tracing():  # type: ignore[no-untyped-call]
        return int(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        return int(size)
