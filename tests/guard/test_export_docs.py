"""Ten lines from a model in memory to a verdict in onnxruntime: they run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import theodolite as th

pytest.importorskip("onnxruntime", reason="pip install 'theodolite[onnx]'")
pytestmark = pytest.mark.usefixtures("operators_once")

PAGE = Path(__file__).parents[2] / "README.md"
MARKED = re.compile(r"<!-- ten lines -->\n```python\n(.*?)```", re.DOTALL)


def test_the_ten_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = MARKED.findall(PAGE.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    exec(block, names)
    new = names["new"]
    found = th.load_exported("guard.onnx").verdicts(new.numpy())  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found.is_ood, names["is_ood"])
    np.testing.assert_array_equal(found.p_value, names["p_value"])
    assert len(th.Guard.load("guard.safetensors").calibration) == 500
    statements = [line for line in block.splitlines() if line.strip() and "import" not in line]
    assert len(statements) <= 10
