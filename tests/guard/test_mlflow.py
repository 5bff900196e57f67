"""The recipe for MLflow in docs/serving.md, run as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from made_guards import clusters, fitted

DOCS = Path(__file__).parents[2] / "docs" / "serving.md"
# MLflow counts its users, asks for updates and follows git; all of that stays off.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
# Whatever leaves this machine fails at once; what MLflow itself warns of is its own affair.
BEFORE = """
import socket, sys

def refused(self, address):
    if self.family != socket.AF_UNIX:
        raise OSError(f"a connection to {address} was tried")

socket.socket.connect = refused
socket.socket.connect_ex = refused
import numpy as np
features = np.load("features.npy")
"""
AFTER = """
columns = ("predicted", "score", "p_value", "is_ood", "unscorable")
np.savez("verdicts.npz", **{name: verdicts[name].to_numpy() for name in columns})
"""


def recipe() -> str:
    """The block of the docs that logs a model."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "mlflow.pyfunc.log_model" in block)
    return str(block)


def test_the_recipe_of_the_docs_gives_the_guards_verdicts(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="pip install mlflow-skinny")
    pytest.importorskip("pandas", reason="pip install pandas")
    guard = fitted(600)
    guard.save(tmp_path / "guard.safetensors")
    features = clusters(50, 5, spread=3.0)[0].numpy()
    features[7, 0] = np.nan
    np.save(tmp_path / "features.npy", features)
    (tmp_path / "recipe.py").write_text(BEFORE + recipe() + textwrap.dedent(AFTER), encoding="utf-8")
    env = {**os.environ, **QUIET, "MLFLOW_TRACKING_URI": (tmp_path / "runs").as_uri(), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    with np.load(tmp_path / "verdicts.npz") as found:
        expected = guard.verdicts(features, unscorable="flag")
        for name in ("predicted", "score", "p_value", "is_ood", "unscorable"):
            np.testing.assert_array_equal(found[name], getattr(expected, name))
        assert found["is_ood"].any()
        assert not found["is_ood"].all()
    assert {path.name for path in tmp_path.iterdir()} <= {
        "guard.safetensors", "features.npy", "recipe.py", "verdicts.npz", "runs", ".cache", ".config",
    }  # fmt: skip
