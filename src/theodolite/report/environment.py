"""Where a run took place, for its provenance: versions and machine, nothing that names a person or a host."""

from __future__ import annotations

import platform

import numpy as np
import torch

from .._version import __version__


def environment() -> dict[str, str]:
    """Versions and machine in words."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return {
        "theodolite": __version__,
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "NumPy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "device": device,
        "threads": str(torch.get_num_threads()),
    }
