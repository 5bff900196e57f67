"""Verdicts of two runs, compared; files of two stores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from theodolite import Guard, PathVerdict, Running


def judged(
    guard: Guard, data: Path, running: Running | None = None, model: str | None = None
) -> list[PathVerdict]:
    return [row for rows in guard.score_paths(data, model=model, running=running) for row in rows]


def written(folder: Path) -> list[PathVerdict]:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'theodolite[ray]'")
    return [PathVerdict(**row) for row in parquet.read_table(folder).to_pylist()]


def assert_same_rows(one: list[PathVerdict], two: list[PathVerdict]) -> None:
    """The same samples with the same verdicts, in any order; scores to 1e-6."""
    left, right = (sorted(rows, key=lambda row: row.path) for rows in (one, two))
    assert [row._replace(score=None, p_value=None) for row in left] == [
        row._replace(score=None, p_value=None) for row in right
    ]
    for column in ("score", "p_value"):
        mine, its = (np.array([getattr(row, column) for row in rows], float) for rows in (left, right))
        np.testing.assert_allclose(its, mine, rtol=1e-6, atol=1e-6)


def files_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}
