"""Examples run in this process, as `python examples/NAME.py` would run them, and what they print."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# What each must print, in order; numbers are left out where a rounding may move them.
SHOWN = {
    "arrays_only": ["ORA  AUROC 0.9", "KNN  AUROC 0.", "ORA flags 3"],
    "clip_zero_shot": [
        "cat, dog, sea lion; score: Relative Energy",
        "as in training:",
        "noise: 100% flagged",
    ],
    "drift": ["50 samples:", "300 samples:", "alarm at sample 3", "no longer like the calibration data"],
    "ensemble": ["model 2 alone", "p-values"],
    "on_ray": ["fitted on 800 rows, calibrated on 600", "of 100 digits and 100 negatives:"],
    "onnx_export": [
        "inputs: features",
        "as they are: 9",
        "on their side:",
        "those of PyTorch",
    ],
    "service_client": ["a digit: ID", "noise: OOD, stranger than all 800 familiar samples"],
    "shaped_scores": ["ORA react:90", "Energy scale:85"],
    "text": ["flight today", "familiar", "grass green", "out of scope", "whales breathe", "out of scope"],
    "torch_model": ["features of width 64", "flagged at a false-alarm rate of 5 %"],
}


def run_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run one to its end; it has said what it must, in that order."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said, place = capsys.readouterr().out, 0
    for words in SHOWN[name]:
        place = said.find(words, place)
        assert place >= 0, f"{words!r} is not said, or too early: {said}"
        place += len(words)
