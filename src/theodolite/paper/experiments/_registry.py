"""The experiments by name: what each needs below the data root, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ...benchmarks.locate import locate
from ..studies import Study


@dataclass(frozen=True)
class Need:
    """A file or folder below the data root, or (``split``) a data set by its name."""

    name: str
    split: str | None = None

    def missing(self, root: Path | None) -> str | None:
        """What is wrong with it, or None."""
        if self.split is not None:
            found = locate(self.name, self.split, root)
            return None if found.present else f"{self.name} ({self.split}): {found.detail}"
        if root is None:
            return f"{self.name}: no data root, set THEODOLITE_DATA or pass --root"
        return None if (root / self.name).exists() else f"{self.name}: not below the data root"


@dataclass(frozen=True)
class Context:
    """Where an experiment finds its data and keeps what it computes; ``say`` tells how far it is."""

    root: Path
    cache: Path
    seed: int = 0
    say: Callable[[str], None] = lambda _: None

    @property
    def scores(self) -> Path:
        """The folder of finished scores."""
        return self.cache / "scores"


Produced: TypeAlias = Mapping[str, Study]
Runner: TypeAlias = Callable[[Context], Produced]


@dataclass(frozen=True)
class Experiment:
    """``run`` gives one study for every file to be written, by its name."""

    name: str
    title: str
    needs: tuple[Need, ...]
    run: Runner

    @property
    def command(self) -> str:
        return f"theodolite reproduce {self.name}"

    def missing(self, root: Path | None) -> list[str]:
        return [reason for need in self.needs if (reason := need.missing(root)) is not None]


_experiments: dict[str, Experiment] = {}


def experiment(name: str, title: str, *needs: Need) -> Callable[[Runner], Runner]:
    """Function decorator: enter an experiment."""

    def enter(run: Runner) -> Runner:
        _experiments[name] = Experiment(name, title, needs, run)
        return run

    return enter


def experiments() -> dict[str, Experiment]:
    """All experiments, by name."""
    return dict(_experiments)
