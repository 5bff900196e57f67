"""Where a model runs."""

from __future__ import annotations

import torch

from ..core.errors import InputError

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one."""
    if name not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda is not available on this machine: use cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
