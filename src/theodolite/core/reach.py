"""The code that a name of a module reaches: what it uses of its own module, and of others of the same hand.

A model of one's own is known by what runs when it is built and looks at a picture, not by the file that it
lies in. Names are followed through imports into every module that is not an installed package. What cannot
be followed (``globals()``, ``from … import *``, a module handed on as an object) is taken whole.
"""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .statements import ALL, Module, source_file

_PLACES = ("site-packages", "dist-packages")
# Packages that are nobody's own, also where they are worked on in a folder of their own.
_LIBRARIES = {"theodolite", "torch", "torchvision", "timm", "transformers", "open_clip", "numpy", "PIL"}


def reached_digest(module: str, name: str) -> str | None:
    """sha256 over the code that ``name`` of a module reaches; None where its source cannot be read."""
    found = _Reach(module.split(".")[0])
    try:
        if not found.start(module, name):
            return None
        lines = list(found.lines())
    except (OSError, SyntaxError, ValueError):
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def is_installed(package: str, path: Path) -> bool:
    """Whether the file of a package is that of a library: installed, of Python itself, or known as one."""
    standard = Path(sysconfig.get_path("stdlib"))
    installed = any(part in _PLACES for part in path.parts) or path.is_relative_to(standard)
    return installed or package in _LIBRARIES


class _Reach:
    """What is reached from one name, in all modules of the same hand."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.modules: dict[str, Module] = {}
        self.waiting: list[str] = []
        self.seen = set[tuple[str, tuple[str, ...]]]()

    def start(self, module: str, name: str) -> bool:
        first = self._enter(module)
        if first is None:
            return False
        self._reach(module, (name,) if name in first.bound else ())  # or it is made at run time
        while self.waiting:
            found = self.modules[self.waiting.pop()]
            for chain in found.choose(self._is_own):
                self._use(found, chain)
        return True

    def lines(self) -> Iterator[str]:
        for name, module in sorted(self.modules.items()):
            yield from (f"{name} {line}" for line in module.lines())

    def _enter(self, module: str) -> Module | None:
        """A module of the same hand by its name. Its packages, and what it imports, run before it."""
        if module in self.modules:
            return self.modules[module]
        if not self._is_own(module):
            return None
        found = self.modules[module] = Module(module)
        self.waiting.append(module)
        if "." in module:
            self._enter(module.rpartition(".")[0])
        for target, attribute in found.imported:
            self._enter(target)
            if attribute == ALL:
                self._reach(target, ())
            elif attribute is not None:
                self._enter(f"{target}.{attribute}")
        return found

    def _is_own(self, module: str) -> bool:
        path, top = source_file(module), module.split(".")[0]
        return path is not None and (top == self.package or not is_installed(top, path))

    def _reach(self, module: str, names: tuple[str, ...]) -> None:
        """``module.first.second``: a name of the module or of one below it; without names, all of it."""
        if (module, names) in self.seen:
            return
        self.seen.add((module, names))
        found = self._enter(module)
        if found is not None:
            self._want(found, names[0] if names else ALL)
            exported = [names[0]] if names else list(found.imports)
            for name in exported:
                for target, attribute in found.imports.get(name, ()):
                    self._reach(target, (*([] if attribute is None else [attribute]), *names[1:]))
        if names and source_file(f"{module}.{names[0]}") is not None:
            self._reach(f"{module}.{names[0]}", names[1:])

    def _use(self, module: Module, chain: tuple[str, ...]) -> None:
        """A statement of a module that is reached says ``first.second``."""
        if chain[0] in module.bound or chain[0] == ALL:
            self._want(module, chain[0])
        elif "__getattr__" in module.bound:
            self._want(module, "__getattr__")
        for target, attribute in module.imports.get(chain[0], ()):
            self._reach(target, (*([] if attribute is None else [attribute]), *chain[1:]))

    def _want(self, module: Module, name: str) -> None:
        if name not in module.wanted:
            module.wanted.add(name)
            self.waiting.append(module.name)
