"""The programs of examples/ and the notebooks of docs/ as pages: their text as it is, to be copied."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from .settings import Entry


def example_pages(repository: Path) -> dict[str, str]:
    """A page an example, and one of all of them."""
    notebooks = (repository / "docs" / "notebooks").glob("*.ipynb")
    paths = [*sorted((repository / "examples").glob("*.py")), *sorted(notebooks)]
    pages = {
        f"examples/{path.stem}.md": _program(path) if path.suffix == ".py" else _notebook(path)
        for path in paths
    }
    rows = [
        f"| [{path.name}]({path.stem}.md) | {_title(pages[f'examples/{path.stem}.md'])} |" for path in paths
    ]
    head = [
        "# Examples",
        "",
        "Short programs that run as they are, `python examples/NAME`, and notebooks. Tests run them all.",
        "",
    ]
    pages["examples/index.md"] = "\n".join([*head, "| file | what it shows |", "|---|---|", *rows]) + "\n"
    return pages


def example_entries(pages: dict[str, str]) -> list[Entry]:
    """The pages in the navigation."""
    return [
        (_title(text), name)
        for name, text in sorted(pages.items(), key=lambda item: not item[0].endswith("index.md"))
    ]


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _program(path: Path) -> str:
    source = path.read_text("utf-8")
    said = ast.get_docstring(ast.parse(source)) or path.stem
    title, _, rest = said.partition(": ")
    code = source.partition('"""\n\n')[2] or source
    told, _, install = (rest or said).partition("Install: ")
    told = told.strip()[:1].upper() + told.strip()[1:]
    if install:
        told += f"\n\n```console\n$ {install.strip().rstrip('.')}\n```"
    return f"# {title}\n\n{told}\n\n```python\n{code.strip()}\n```\n\n`python examples/{path.name}`\n"


def _notebook(path: Path) -> str:
    """Markdown cells as they are; code with what it printed and drew."""
    content = json.loads(path.read_text("utf-8"))
    parts = [part for cell in content["cells"] for part in _cell(cell)]
    if not parts or not parts[0].startswith("# "):
        parts.insert(0, f"# {path.stem.replace('_', ' ').replace('-', ' ').capitalize()}")
    return "\n\n".join([*parts, f"`docs/notebooks/{path.name}`"]) + "\n"


def _cell(cell: dict[str, object]) -> Iterator[str]:
    text = _joined(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield text.replace(".ipynb)", ".md)")  # a link to another notebook is one to its page
        return
    if text.strip():
        yield f"```python\n{text.strip()}\n```"
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        data = output.get("data", {})
        if "image/png" in data:
            picture = _joined(data["image/png"]).replace("\n", "")
            yield f"![What the cell above draws](data:image/png;base64,{picture})"
        else:
            told = _joined(output.get("text") or data.get("text/plain")).strip()
            if told:
                yield f"```text\n{told}\n```"


def _joined(text: object) -> str:
    """Notebooks keep a text whole or by lines."""
    return "".join(text) if isinstance(text, list) else str(text or "")
