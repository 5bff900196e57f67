"""What workers tell the driver: a result with what was warned of, or the error of ours that ended the work.

Errors travel as data, and are raised again where the result is asked for.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

from .._version import __version__
from ..core import errors
from ..core.errors import InputError, TheodoliteError, UnreadableImageError
from ..core.imported import Imported, import_again, imported

Unit = TypeVar("Unit")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Refused:
    """An error of ours on its way back: as data, which needs no code to be read."""

    kind: str
    message: str
    path: str | None

    @classmethod
    def of(cls, error: TheodoliteError) -> Refused:
        known = next(kind for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        return cls(known.__name__, str(error), getattr(error, "path", None))

    def raised(self) -> TheodoliteError:
        kind = getattr(errors, self.kind)
        error: TheodoliteError = kind.__new__(kind, self.message)
        error.args = (self.message,)
        if isinstance(error, UnreadableImageError):
            error.path = self.path
        return error


def told(error: TheodoliteError) -> str:
    """An error of ours as text."""
    return json.dumps(asdict(Refused.of(error)))


def untold(text: str) -> Refused:
    """The error of a text, as what a task gives."""
    return Refused(**json.loads(text))


@dataclass(frozen=True)
class Told(Generic[Result]):
    """What a unit gave, and what was warned of meanwhile."""

    result: Result
    warned: tuple[str, ...]


@dataclass(frozen=True)
class Folders:
    """Where the driver finds modules. A worker that reads them has them on its path, for models and scores
    of one's own that it reads next."""

    folders: tuple[str, ...]

    @classmethod
    def here(cls) -> Folders:
        return cls(tuple(str(Path(folder).absolute()) for folder in sys.path if Path(folder).is_dir()))

    def __reduce__(self) -> tuple[Callable[[tuple[str, ...]], Folders], tuple[tuple[str, ...]]]:
        return _found, (self.folders,)


def _found(folders: tuple[str, ...]) -> Folders:
    sys.path.extend(folder for folder in folders if folder not in sys.path and Path(folder).is_dir())
    return Folders(folders)


@dataclass(frozen=True)
class Driver:
    """Who sends work: its version of theodolite, the folder that relative paths start from, where it finds
    modules, and those that --import named."""

    version: str
    folder: str
    folders: Folders
    imports: tuple[Imported, ...] = ()

    @classmethod
    def here(cls) -> Driver:
        return cls(__version__, str(Path.cwd()), Folders.here(), imported())

    def joined(self) -> None:
        """In a worker: the same version and modules are required, and the same folder taken where it is."""
        if self.version != __version__:
            raise InputError(
                f"a worker has theodolite {__version__}, the driver {self.version}: install the "
                f"same version on all machines"
            )
        if str(Path.cwd()) != self.folder and Path(self.folder).is_dir():
            os.chdir(self.folder)
        import_again(self.imports)


def done(work: Callable[[Unit], Result], unit: Unit, driver: Driver | None = None) -> Told[Result] | Refused:
    """In a worker: the work, or the error of ours that it ended with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", errors.TheodoliteWarning)
        try:
            if driver is not None:
                driver.joined()
            result = work(unit)
        except TheodoliteError as error:
            return Refused.of(error)
    return Told(result, tuple(str(warning.message) for warning in caught))
