"""The notebooks run, and give what they show: texts to the rounding of their numbers, and figures."""

from __future__ import annotations

import json
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="pip install scikit-learn")

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))
NOTEBOOKS = sorted(Path(TOOL["FOLDER"]).glob("*.ipynb"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def texts(outputs: list[dict[str, Any]]) -> str:
    return "".join(
        "".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs
    )


def figures(outputs: list[dict[str, Any]]) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_there_are_two_of_them_and_they_are_small() -> None:
    assert len(NOTEBOOKS) == 2
    for path in NOTEBOOKS:
        assert path.stat().st_size < 300_000, path.name
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert sum(figures(cell.get("outputs", [])) for cell in cells) == 2, path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_gives_what_it_shows(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = TOOL["run"](cells)
    for number, (cell, outputs) in enumerate(zip(cells, found, strict=True)):
        kept = cell.get("outputs", [])
        assert figures(outputs) == figures(kept), f"cell {number}"
        assert NUMBER.sub("0", texts(outputs)) == NUMBER.sub("0", texts(kept)), f"cell {number}"
        for now, then in zip(NUMBER.findall(texts(outputs)), NUMBER.findall(texts(kept)), strict=True):
            assert alike(now, then), f"cell {number}: {now}, kept is {then}: `make notebooks`"


def alike(now: str, then: str) -> bool:
    """To what another processor may do to a small network: a few samples, some hundredths of an area."""
    slack = 0.03 if "." in then else 2
    return abs(float(now) - float(then)) <= slack + 0.05 * abs(float(then))


def test_numbers_that_differ_are_told_apart() -> None:
    assert alike("0.91", "0.93")
    assert alike("8", "7")
    assert not alike("0.63", "0.93")
    assert not alike("12", "67")
