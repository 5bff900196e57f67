"""The house rules, read from the source: sizes, signatures, imports, and that CONTRIBUTING shows the tree."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "theodolite"
LINES, PARAMETERS, FILE_LINES = 60, 10, 300
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def trees() -> list[tuple[str, ast.Module]]:
    files = sorted(SOURCE.rglob("*.py"))
    return [(str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def example_lines(node: ast.AST) -> int:
    """Lines of the examples that end docstrings within: they are read like a page, not like code."""
    documented = (part for part in ast.walk(node) if isinstance(part, ast.ClassDef | Function))
    docs = (ast.get_docstring(part, clean=False) or "" for part in documented)
    return sum(text[text.index(">>>") :].count("\n") + 1 for text in docs if ">>>" in text)


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def parameters(function: Function) -> int:
    given = function.args
    names = [part.arg for part in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def is_command(name: str, function: Function) -> bool:
    """A command's parameters are its options."""
    return name.startswith("cli/") and function.name == Path(name).stem


def public_functions(tree: ast.Module) -> Iterator[Function]:
    holders: list[ast.Module | ast.ClassDef] = [tree]
    holders += [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for holder in holders:
        for node in holder.body:
            if isinstance(node, Function) and (node.name == "__init__" or not node.name.startswith("_")):
                yield node


def test_functions_are_short_and_take_few_parameters() -> None:
    long = [
        f"{name}: {function.name} has {size} lines"
        for name, tree in trees()
        for function in functions(tree)
        if (size := _lines(function)) > LINES and not is_command(name, function)
    ]
    wide = [
        f"{name}: {function.name} takes {parameters(function)}"
        for name, tree in trees()
        for function in functions(tree)
        if parameters(function) > PARAMETERS and not is_command(name, function)
    ]
    assert long + wide == []


def _lines(function: Function) -> int:
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines if lines <= LINES else lines - example_lines(function)


def test_files_can_be_read_in_one_sitting() -> None:
    long = {
        name: lines
        for name, tree in trees()
        if (lines := _length(SOURCE / name) - example_lines(tree)) > FILE_LINES
    }
    assert long == {}


def _length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_public_signatures_have_no_bags() -> None:
    bag = re.compile(r"\b(?:dict|Mapping|Dict)\[str, (?:Any|object)\]")
    found = [
        f"{name}: {function.name}({part})"
        for name, tree in trees()
        for function in public_functions(tree)
        for part in (
            *(ast.unparse(given.annotation) for given in _arguments(function) if given.annotation),
            *([ast.unparse(function.returns)] if function.returns else []),
        )
        if bag.search(part)
    ]
    assert found == []


def _arguments(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def test_only_the_commands_import_late() -> None:
    """There it keeps `--help` quick; elsewhere it would hide a cycle."""
    late = [
        f"{name}: {function.name}"
        for name, tree in trees()
        if not name.startswith("cli/")
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert late == []


def rooms() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file())


def test_the_contract_of_imports_lists_every_room() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    assert sorted(layers) == rooms()
    shown = re.findall(r"^ {4}(\w+)/ {2,}\S", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
    assert shown == list(reversed(layers)), "CONTRIBUTING shows the rooms, upstream first, a line each"
