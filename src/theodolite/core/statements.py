"""A module as the statements at its top: the names that each binds, and those that it uses."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TypeAlias

from .code import shape

ALL = "*"
# ``nets.Small`` is (nets, Small).
Chain: TypeAlias = tuple[str, ...]
# A module, and the name that is taken from it; None for the module itself.
Imported: TypeAlias = tuple[str, str | None]

_DYNAMIC = {"eval", "exec", "globals", "locals", "vars", "__import__", "import_module"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Import = ast.Import | ast.ImportFrom


class Statement:
    """A statement at the top of a module."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node

    @cached_property
    def binds(self) -> set[str]:
        """Names that it gives a meaning to, or whose meaning it changes: ``Net.width = 3`` changes Net."""
        if isinstance(self.node, _Definition):
            return {self.node.name}
        bound = set[str]()
        for node in _at_import(self.node):
            if isinstance(node, _Definition):
                bound.add(node.name)
            elif isinstance(node, _Import):
                bound |= {_bound_by(alias) for alias in node.names}
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
        return bound | self.alters

    @cached_property
    def alters(self) -> set[str]:
        """Names of things that it changes parts of."""
        parts = (node for node in _at_import(self.node) if isinstance(node, ast.Attribute | ast.Subscript))
        return {_root(node) for node in parts if not isinstance(node.ctx, ast.Load)} - {""}

    @cached_property
    def uses(self) -> set[Chain]:
        """Names, and attributes of names, anywhere in it."""
        return _chains(self.node)

    @cached_property
    def dynamic(self) -> bool:
        """Whether it looks names up that it does not write down."""
        return any(_DYNAMIC & set(chain) or chain[:2] == ("sys", "modules") for chain in self.uses)

    @cached_property
    def is_main(self) -> bool:
        return isinstance(self.node, ast.If) and ast.unparse(self.node.test) == "__name__ == '__main__'"

    @cached_property
    def runs(self) -> bool:
        """Whether it does something on import and binds no name."""
        text = isinstance(self.node, ast.Expr) and isinstance(self.node.value, ast.Constant)
        return not (self.binds or text or isinstance(self.node, ast.Pass))

    def patches(self, names: set[str]) -> bool:
        """Whether it calls something on import and mentions one of the names."""
        if isinstance(self.node, _Definition | _Import):
            return False
        calls = any(isinstance(node, ast.Call) for node in _at_import(self.node))
        return calls and any(chain[0] in names for chain in self.uses)


class Module:
    """A module, the names of it that are ``wanted``, and the statements that were chosen for them.

    A statement is chosen if it binds a wanted name, if it runs on import and binds none, or if it patches
    something: it changes parts of what is imported, or calls something on import with a name that is wanted,
    or comes from another module of the same hand.
    """

    def __init__(self, name: str) -> None:
        path = source_file(name)
        assert path is not None
        self.name, self.path = name, path
        self.statements = [Statement(node) for node in ast.parse(path.read_text(encoding="utf-8")).body]
        self.bound = {bound for statement in self.statements for bound in statement.binds}
        self.wanted = set[str]()
        self.chosen = set[int]()

    @cached_property
    def imported(self) -> list[Imported]:
        """What it imports when it is itself imported."""
        nodes = [node for statement in self.statements for node in _at_import(statement.node)]
        whole = [(alias.name, None) for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        return [*whole, *(found for node in nodes for found in self._imported(node).values())]

    @cached_property
    def imports(self) -> dict[str, list[Imported]]:
        """What its names stand for, where they were imported, also within functions."""
        named: dict[str, list[Imported]] = {}
        for statement in self.statements:
            for node in ast.walk(statement.node):
                for name, found in self._imported(node).items():
                    named.setdefault(name, []).append(found)
        return named

    def choose(self, is_own: Callable[[str], bool]) -> Iterator[Chain]:
        """Choose what is wanted by now; what the statements use that were not chosen before."""
        own = {
            name for name in self.wanted if all(is_own(target) for target, _ in self.imports.get(name, ()))
        }
        for place, statement in enumerate(self.statements):
            if statement.is_main or place in self.chosen:
                continue
            if (
                ALL in self.wanted
                or statement.runs
                or statement.binds & self.wanted
                or statement.alters & self.imports.keys()
                or statement.patches(own)
            ):
                self.chosen.add(place)
                yield from sorted(statement.uses)
                if statement.dynamic:
                    yield (ALL,)

    def lines(self) -> Iterator[str]:
        """What was chosen, a line a statement; of an import only the names that are wanted."""
        for place in sorted(self.chosen):
            node = self.statements[place].node
            if isinstance(node, _Import):
                found = self._imported(node)
                yield from (f"import {name} {found[name]}" for name in sorted(found) if name in self.wanted)
            else:
                yield repr(shape(_without_texts(node)))

    def _imported(self, node: ast.AST) -> dict[str, Imported]:
        if isinstance(node, ast.Import):
            return {
                _bound_by(alias): (alias.name if alias.asname else alias.name.split(".")[0], None)
                for alias in node.names
            }
        if isinstance(node, ast.ImportFrom):
            base = self._absolute(node)
            return {_bound_by(alias): (base, alias.name) for alias in node.names}
        return {}

    def _absolute(self, node: ast.ImportFrom) -> str:
        """The module that an import names, with the dots of a relative one resolved."""
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.path.name == "__init__.py" else self.name.split(".")[:-1]
        kept = package[: len(package) - node.level + 1]
        return ".".join([*kept, *([node.module] if node.module else [])])


def source_file(module: str) -> Path | None:
    """Where the code of a module is; nothing is imported to find out."""
    path = located(module)
    return path if path is not None and path.suffix == ".py" else None


def located(module: str) -> Path | None:
    """The file of a module, source or compiled; None for one that is built in, a mere folder, or absent."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if loaded is None:
        spec = _spec(module)
        file = None if spec is None else spec.origin
    path = None if file is None else Path(file)
    return path if path is not None and path.is_file() else None


def is_namespace(module: str) -> bool:
    """Whether a module is a folder without code of its own."""
    spec = _spec(module)
    return spec is not None and spec.origin is None and spec.submodule_search_locations is not None


def _spec(module: str) -> ModuleSpec | None:
    places: list[str] | None = None
    spec: ModuleSpec | None = None
    names = module.split(".")
    for count in range(1, len(names) + 1):
        try:
            spec = PathFinder.find_spec(".".join(names[:count]), places)
        except (ImportError, ValueError, AttributeError):
            return None
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or [])
    return spec


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is in it, without functions, which run later or never."""
    yield node
    if not isinstance(node, _Function):
        for child in ast.iter_child_nodes(node):
            yield from _at_import(child)


def _chains(node: ast.AST) -> set[Chain]:
    if isinstance(node, ast.Name):
        return {(node.id,)}
    if isinstance(node, ast.Attribute):
        inner, names = node.value, [node.attr]
        while isinstance(inner, ast.Attribute):
            names = [inner.attr, *names]
            inner = inner.value
        return {(inner.id, *names)} if isinstance(inner, ast.Name) else _chains(inner)
    return {chain for child in ast.iter_child_nodes(node) for chain in _chains(child)}


def _root(node: ast.expr) -> str:
    """The name at the beginning of ``name.a[0].b``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _without_texts(node: ast.stmt) -> ast.stmt:
    """A statement without the docstrings in it."""
    for inner in ast.walk(node):
        if isinstance(inner, _Definition) and ast.get_docstring(inner, clean=False) is not None:
            inner.body = inner.body[1:]
    return node
