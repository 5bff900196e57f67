"""Modules of one's own that a command was told to import: workers on other machines import them as well."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .compat import import_module
from .errors import InputError


class Imported(NamedTuple):
    """A module by its name, and the folder that it is found in."""

    module: str
    folder: str


_known: dict[Imported, None] = {}


def import_remembered(module: str, folder: Path) -> None:
    """Import a module of one's own, its folder being on the path, and remember it."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    import_module(module)
    _known[Imported(module, str(folder))] = None


def imported() -> tuple[Imported, ...]:
    """What was imported so, in the order it was."""
    return tuple(_known)


def import_again(modules: Iterable[Imported]) -> None:
    """In a worker: the same modules, from the same folders."""
    for module, folder in modules:
        if module in sys.modules:
            continue
        try:
            import_remembered(module, Path(folder))
        except ImportError as error:
            raise InputError(
                f"a worker cannot import {module}, which --import named ({error}): its folder, {folder}, "
                f"must be on a file system that all machines share, or the module installed on all"
            ) from error
