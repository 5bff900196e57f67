"""`--import`: a module of one's own by its name or by its path, before the command runs.

A file is imported under its own name, its folder being on the path: what lies beside it can be imported, and
processes that are started later, and files that name a function of it, find it again. One inside a package
is imported as part of it. A name that means something else already is refused.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from ..core.errors import InputError
from ..core.statements import located


def import_own(name: str) -> None:
    """A module that lies in the working directory or is installed, or a file or package at a path."""
    if _is_path(name):
        _import_path(name)
        return
    _import(name, Path.cwd(), name, "Check that it is installed or lies in the working directory")


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name or "\\" in name


def _import_path(text: str) -> None:
    place = Path(text).expanduser().resolve()
    file = place / "__init__.py" if place.is_dir() else place
    if not file.is_file() or file.suffix != ".py":
        raise InputError(
            f"--import {text}: {place} is neither a Python file nor a package (a folder with __init__.py), "
            f"looked from {Path.cwd()}"
        )
    root, names = place.parent, [place.stem if place.is_file() else place.name]
    while (root / "__init__.py").is_file():
        root, names = root.parent, [root.name, *names]
    for name in names:
        if "." in name:
            raise InputError(f"--import {text}: {name!r} cannot be the name of a module: rename it")
    top = root / names[0]
    _require_free(text, names[0], {top / "__init__.py", top.with_suffix(".py")})
    for beside in _beside(root):
        # What lies beside the file must be what the file gets when it imports it.
        if beside in _imported_names(file):
            _require_free(text, beside, {root / f"{beside}.py", root / beside / "__init__.py"})
    _import(".".join(names), root, text, "Check what it imports")


def _require_free(text: str, name: str, files: set[Path]) -> None:
    found = located(name)
    known = found is not None or name in sys.builtin_module_names or name in sys.modules
    if known and (found is None or found.resolve() not in files):
        raise InputError(
            f"--import {text}: a module called {name!r} is there already ({found or 'built in'}), and would "
            f"be taken for the one beside it or in its place: rename yours"
        )


def _beside(root: Path) -> set[str]:
    files = {path.stem for path in root.glob("*.py")}
    return files | {path.parent.name for path in root.glob("*/__init__.py")}


def _imported_names(file: Path) -> set[str]:
    """The modules at the top that a file imports anywhere."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return set()  # told when it is imported
    nodes = list(ast.walk(tree))
    plain = {
        alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    taken = (node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level)
    return plain | {str(module).split(".")[0] for module in taken}


def _import(module: str, folder: Path, said: str, remedy: str) -> None:
    from ..core import imported

    try:
        imported.import_remembered(module, folder)
    except ImportError as error:
        raise InputError(f"--import {said}: {error}. {remedy}") from error
    except SyntaxError as error:
        raise InputError(f"--import {said}: line {error.lineno} is no Python: {error.msg}") from error
