"""All code of one's own behind a class: its module, and every module of the same hand that this one imports.

Installed packages and the standard library are not followed, the package of the class itself is. Modules are
taken whole, since what a score of one's own computes must not be missed; where the code cannot be known there
is no digest: a class that was typed in, a module without its source, a compiled one, one that is loaded by a
name which is only known at run time, or a file that was edited after it was imported.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator

from .code import code_behind, code_digest
from .reach import is_installed
from .statements import Module, is_namespace, located, source_file

_OURS = __name__.split(".")[0]
_MAIN = "__main__"
# What brings code in that no import names.
_LOADERS = {
    *("import_module", "__import__", "exec_module", "spec_from_file_location", "run_path", "run_module"),
    *("CDLL", "cdll", "load_library", "cpp_extension", "load_inline"),
}
_EVALUATORS = {("eval",), ("exec",), ("compile",)}


class _UnknownError(Exception):
    """The code cannot be known."""


def own_digest(kinds: Iterable[type], *, imported: float) -> str | None:
    """sha256 over the code behind classes of one hand; None where it cannot be known.

    ``imported`` is when their modules were: a file that is younger is not what runs.
    """
    try:
        roots = {_root_of(kind) for kind in kinds}
        lines = list(_lines(roots, imported))
    except (_UnknownError, OSError, SyntaxError, ValueError, RecursionError):
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _root_of(kind: type) -> str:
    """The module of a class, of which every method must lie in a file."""
    for value in vars(kind).values():
        for function in (value, getattr(value, "fget", None), getattr(value, "__func__", None)):
            code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
            if code is not None and code.co_filename.startswith("<"):
                raise _UnknownError(f"{kind.__qualname__} was typed in")
    # A module that is run with `python -m` has another name for itself than the one to import it by.
    spec = getattr(sys.modules.get(_MAIN), "__spec__", None) if kind.__module__ == _MAIN else None
    name = kind.__module__ if spec is None else str(spec.name)
    if source_file(name) is None or kind.__qualname__.split(".")[0] not in Module(name).bound:
        raise _UnknownError(f"{kind.__qualname__} is not in the file of {name}")
    return name


def _lines(roots: set[str], imported: float) -> Iterator[str]:
    packages = {root.split(".")[0] for root in roots}
    found, ours, waiting = dict[str, Module](), set[str](), sorted(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        module = found[name] = Module(name)
        if module.path.stat().st_mtime > imported:
            raise _UnknownError(f"{module.path} was edited after it was imported")
        for target, at_once in _imports(module):
            if target.split(".")[0] == _OURS:
                ours.add(target.partition(".")[2])
            elif _is_own(target, packages, at_once):
                waiting.append(target)
    for name, module in sorted(found.items()):
        yield f"{name} {code_digest(module.path.read_text(encoding='utf-8'))}"
    yield code_behind(*sorted(ours - {""}))


def _imports(module: Module) -> Iterator[tuple[str, bool]]:
    """The modules that one imports, with the packages they lie in, and whether it does so at once."""
    for statement in module.statements:
        if any(_LOADERS & set(chain) or chain in _EVALUATORS for chain in statement.uses):
            raise _UnknownError(f"{module.name} loads code by a name that no import says")
    at_once = set(module.imported)
    for said in sorted({*at_once, *(one for named in module.imports.values() for one in named)}, key=str):
        target, attribute = said
        parts = target.split(".")
        yield from ((".".join(parts[:count]), said in at_once) for count in range(1, len(parts) + 1))
        if attribute is not None and located(f"{target}.{attribute}") is not None:
            yield f"{target}.{attribute}", said in at_once


def _is_own(name: str, packages: set[str], at_once: bool) -> bool:
    """Whether a module is to be followed; an error where it is one's own and its code is not to be had."""
    top, path = name.split(".")[0], located(name)
    if path is None:
        loaded = sys.modules.get(name)
        folder = hasattr(loaded, "__path__") or is_namespace(name)
        if folder or top in sys.stdlib_module_names or (loaded is None and at_once):
            return False  # what could not be imported at once was not
        raise _UnknownError(f"{name} has no file")
    if top not in packages and is_installed(top, path):
        return False
    if path.suffix != ".py":
        raise _UnknownError(f"{name} is compiled")
    return True
