"""Shared fixtures: where the real data is, hypothesis without a stopwatch, and no network.

A missing download is an error at once, not after retries.
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def few_waves() -> Iterator[None]:
    """CoRP maps to 64 numbers where it is one of all scores: with 2,048 a fit takes as long as the others."""
    from theodolite.detectors import CoRP

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(inspect.unwrap(CoRP.__init__).__kwdefaults__, "components", 64)
        yield


@pytest.fixture(scope="session")
def operators_once() -> Iterator[None]:
    """PyTorch's table of ONNX operators is built once: building takes as long as the rest of an export."""
    pytest.importorskip("onnx_ir", reason="pip install 'theodolite[onnx]'")
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    build, built = ONNXRegistry.from_torchlib, dict[tuple[int, ...], Any]()

    def once(*args: int, **named: int) -> Any:
        version = (*args, *named.values())
        if version not in built:
            built[version] = build(*version)
        registry = copy.copy(built[version])
        registry.functions = {operator: list(known) for operator, known in registry.functions.items()}
        return registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(once))
        yield
