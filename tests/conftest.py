"""Shared fixtures: where the real data is, hypothesis without a stopwatch, and no network.

A missing download is an error at once, not after retries.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

settings.register_profile(
    "house", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data and checkpoints."""
    root = os.environ.get("THEODOLITE_DATA")
    if not root:
        pytest.skip("THEODOLITE_DATA is not set: the real data is not on this machine")
    return Path(root)
