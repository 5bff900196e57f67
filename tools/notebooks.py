"""Run the notebooks of docs/notebooks and keep what they give: `make notebooks`.

The code cells of one run in order in one namespace, in a folder that is gone afterwards. Kept are what a cell
prints, its last value in words, and a figure as a small PNG. `run` gives the outputs without keeping them: a
test holds those that are kept against it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
# Dots an inch: enough to read, and a notebook stays small.
DOTS = 72


def run(cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The outputs of each cell, as a notebook keeps them; none of those that are no code."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [
            _outputs("".join(cell["source"]), names) if cell["cell_type"] == "code" else [] for cell in cells
        ]


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), names)
        value = (
            eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if isinstance(last, ast.Expr)
            else None
        )
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(said.getvalue())})
    if isinstance(value, Figure):
        file = io.BytesIO()
        value.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
        picture = {"image/png": base64.b64encode(file.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "data": picture, "metadata": {}})
    elif value is not None:
        outputs.append(
            {"output_type": "display_data", "data": {"text/plain": _lines(repr(value))}, "metadata": {}}
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        count = 0
        for cell, outputs in zip(notebook["cells"], run(notebook["cells"]), strict=True):
            if cell["cell_type"] == "code":
                count += 1
                cell.update(outputs=outputs, execution_count=count)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {count} cells, {path.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
