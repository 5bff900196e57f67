"""What a table of timings is worth nothing without: the versions and the machine behind it."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PEERS = ("pytorch-ood", "faiss-cpu", "scikit-learn", "onnxruntime")


def facts() -> dict[str, str]:
    """Names and values in the order they are shown; nothing that names a person or a host."""
    shown = {
        "theodolite": installed("theodolite"),
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "BLAS": blas(),
        "CPU": processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "threads": str(torch.get_num_threads()),
    }
    return shown | {name: installed(name) for name in PEERS}


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def blas() -> str:
    """The library behind the matrix products, as PyTorch was built with it."""
    built = torch.__config__.show()
    found = re.search(r"Math Kernel Library Version (\S+?)-", built)
    if found:
        return f"MKL {found[1]}"
    named = re.search(r"BLAS_INFO=(\w+)", built)
    return named[1] if named else "unknown"


def processor() -> str:
    """The model and its widest vectors, which decide more than its name."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", path.read_text(), re.M) if path.exists() else None
    name = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"
