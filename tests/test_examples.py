"""Every example runs as a user would run it, warns of nothing, and says something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHOWN = {
    "arrays_only": ["ORA  AUROC", "ORA flags"],
    "ensemble": ["model 2 alone", "p-values"],
    "shaped_scores": ["ORA react:90", "Energy scale:85"],
    "torch_model": ["features of width 64", "flagged at a false-alarm rate of 5 %"],
}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_it_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in SHOWN[name]:
        assert words in done.stdout
