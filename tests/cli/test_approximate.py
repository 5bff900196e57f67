"""What an approximate search misses is said when a guard is fitted, and whenever it is looked at."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from command_server import run


def test_fit_and_inspect_state_the_recall(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 8))
    features = centres[rng.integers(40, size=3_000)] + 0.1 * rng.normal(size=(3_000, 8))
    np.save(tmp_path / "train.npy", features.astype(np.float32))
    guard = tmp_path / "guard.safetensors"
    for spec, said in (("knn?k=5&recall=0.9", True), ("knn?k=5", False)):
        fitted = run("fit", "--data", tmp_path / "train.npy", "--detector", spec, "-o", guard)
        assert fitted.code == 0, fitted.err
        for shown in (fitted.out, run("inspect", guard).out):
            words = " ".join(shown.split())
            found = re.search(r"approximate: \d+ of \d+ cells, which found (9\d|100)\.\d % of the", words)
            assert (found is not None) == said, words
