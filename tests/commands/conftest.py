"""Where the real data is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data and checkpoints."""
    root = os.environ.get("THEODOLITE_DATA")
    if not root:
        pytest.skip("THEODOLITE_DATA is not set: the real data is not on this machine")
    return Path(root)
