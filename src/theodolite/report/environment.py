"""Where a result came about, in words: versions and machine, nothing that names a person or a host."""

from __future__ import annotations

import platform

import torch

from ..benchmarks.result import RunResult

_TITLES = {"python": "Python", "torch": "PyTorch", "numpy": "NumPy"}


def environment(result: RunResult) -> dict[str, str]:
    """The versions that computed a result; and this machine, unless the result was read from a file."""
    versions = {_TITLES.get(name, name): version for name, version in result.versions.items()}
    return {**versions, **machine()} if result.evaluations else versions


def machine() -> dict[str, str]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "threads": str(torch.get_num_threads()),
    }
