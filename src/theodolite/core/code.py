"""The code of a module as a digest: layout and comments do not count, everything that runs does."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


def code_digest(text: str) -> str:
    """sha256 over the syntax tree of a module, the same in every version of Python."""
    return _digest(ast.parse(text))


@cache
def code_behind(*roots: str) -> str:
    """sha256 over the code of modules of this package and of all that they import from it, at any depth."""
    digest = hashlib.sha256()
    for name, path in sorted(_reached(roots).items()):
        digest.update(f"{name} {_read(path).digest}\n".encode())
    return digest.hexdigest()


def modules_behind(*roots: str) -> list[str]:
    """The names of the modules that `code_behind` reads, sorted."""
    return sorted(_reached(roots))


def shape(node: Any) -> Any:
    """A syntax tree as nested lists; empty fields, which versions of Python add and drop, are left out."""
    if isinstance(node, ast.AST):
        fields = [(name, shape(value)) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return [type(node).__name__, *fields]
    return [shape(part) for part in node] if isinstance(node, list) else node


class _Read(NamedTuple):
    """A file of this package: the digest of its code, and its relative imports: level, module, names."""

    digest: str
    imports: list[tuple[int, str | None, list[str]]]


@cache
def _read(path: Path) -> _Read:
    """Parsed once, whatever is asked of it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in _statements(tree.body) if isinstance(node, ast.ImportFrom) and node.level]
    return _Read(
        _digest(tree), [(node.level, node.module, [alias.name for alias in node.names]) for node in found]
    )


def _digest(tree: ast.Module) -> str:
    return hashlib.sha256(repr(shape(tree)).encode()).hexdigest()


def _statements(body: list[Any]) -> Iterator[ast.AST]:
    """Statements at any depth; no import is in an expression."""
    for node in body:
        yield node
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from _statements(getattr(node, part, []))


_PACKAGE = __name__.split(".")[0]
_FOLDER = Path(__file__).parent.parent


def _reached(roots: tuple[str, ...]) -> dict[str, Path]:
    waiting, found = [f"{_PACKAGE}.{root}" for root in roots], dict[str, Path]()
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in found or path is None:
            continue
        found[name] = path
        waiting += _imported(name, path)
    return found


def _file_of(name: str) -> Path | None:
    below = _FOLDER.joinpath(*name.split(".")[1:])
    path = below / "__init__.py" if below.is_dir() else below.with_suffix(".py")
    return path if path.is_file() else None


def _imported(name: str, path: Path) -> list[str]:
    """Modules that a module imports from this package; the package itself has no code of its own."""
    here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    names = []
    for level, module, imported in _read(path).imports:
        base = ".".join([*here[: len(here) - level + 1], *([module] if module else [])])
        names += [base, *(f"{base}.{one}" for one in imported)]
    return [found for found in names if found != _PACKAGE]
