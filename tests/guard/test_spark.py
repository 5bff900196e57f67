"""The recipe for Spark in docs/serving.md, run as it is written on a local Spark: `make test-spark`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from made_guards import clusters, fitted

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs" / "serving.md"
ROWS, MISSING, NOT_A_NUMBER = 200, 3, 7
# Two workers, batches that do not divide the partitions, nothing that listens to the network. A row of
# infinities stands for a row that is missing.
BEFORE = """
from pyspark.sql import SparkSession

local = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "17",
}
spark = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
import numpy as np
table = [None if np.isinf(row).any() else row.tolist() for row in np.load("rows.npy")]
made = spark.createDataFrame(list(enumerate(table)), schema="id long, features array<float>")
made.repartition(3).write.parquet("features.parquet")
"""
AFTER = """
found = spark.read.parquet("verdicts.parquet").orderBy("id").collect()
columns = ("id", "predicted", "is_ood", "unscorable")
kept = {name: np.array([row[name] for row in found]) for name in columns}
for name in ("score", "p_value"):
    kept[name] = np.array([row[name] for row in found], object).astype(np.float64)
    kept[name + " is null"] = np.array([row[name] is None for row in found])
np.savez("verdicts.npz", **kept)
spark.stop()
"""


def recipe() -> str:
    """The block of the docs that maps a guard over a table."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "mapInPandas" in block)
    return str(block)


def test_the_recipe_of_the_docs_gives_the_guards_verdicts(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="make test-spark installs it; pip install 'theodolite[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark runs on Java, and there is none: apt install openjdk-17-jre-headless")
    guard = fitted(600)
    guard.save(tmp_path / "guard.safetensors")
    features = clusters(ROWS, 5, spread=3.0)[0].numpy()
    features[NOT_A_NUMBER, 0] = np.nan
    np.save(tmp_path / "rows.npy", np.where(np.arange(ROWS)[:, None] == MISSING, np.inf, features))
    (tmp_path / "recipe.py").write_text(BEFORE + recipe() + AFTER, encoding="utf-8")
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "recipe.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    features[MISSING] = np.nan
    expected = guard.verdicts(features, unscorable="flag")
    with np.load(tmp_path / "verdicts.npz") as found:
        np.testing.assert_array_equal(found["id"], np.arange(ROWS))
        for name in ("predicted", "is_ood", "unscorable"):
            np.testing.assert_array_equal(found[name], getattr(expected, name))
        for name in ("score", "p_value"):
            np.testing.assert_allclose(found[name], getattr(expected, name), rtol=1e-6)
            np.testing.assert_array_equal(found[f"{name} is null"], found["unscorable"])
        assert np.flatnonzero(found["unscorable"]).tolist() == [MISSING, NOT_A_NUMBER]
        assert found["is_ood"][[MISSING, NOT_A_NUMBER]].all()
        assert 2 < found["is_ood"].sum() < ROWS
