"""`--engine ray` as a command: it starts a Ray of its own, and nothing of it is left."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from command_server import run
from ray_here import one_at_a_time, processes_that_say
from theodolite import FeatureStore

TINY = "python:small_models:Tiny?mean=0&size=8"


def test_a_command_starts_a_ray_for_itself_and_ends_it(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'theodolite[ray]'")
    images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), np.uint8)
    np.savez(tmp_path / "pictures.npz", images=images)
    place = tempfile.mkdtemp(prefix="ray-")  # by which its processes are known; sockets need a short path
    command = ("extract", "--model", TINY, "--data", tmp_path / "pictures.npz", "--batch-size", "4")
    engine = ("--engine", "ray", "--concurrency", "1")
    try:
        with one_at_a_time():
            done = run(*command, "-o", tmp_path / "store", *engine, env={"RAY_TMPDIR": place})
        assert done.code == 0, done.err
        assert any(Path(place).iterdir()), "Ray was there"
        assert len(FeatureStore(tmp_path / "store")) == len(images)
        for _ in range(100):
            if not (left := processes_that_say(place)):
                break
            time.sleep(0.1)
        assert not left
    finally:
        shutil.rmtree(place, ignore_errors=True)


def test_parts_are_merged_here(tmp_path: Path) -> None:
    done = run("fit", tmp_path / "part.safetensors", "-o", tmp_path / "guard.safetensors", "--engine", "ray")
    assert done.code != 0
    assert "to merge parts is done by this process" in " ".join(done.err.split())
