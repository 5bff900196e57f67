"""Repeats of one model, over checkpoints or seeds: the mean of every cell and its standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ..core.errors import InputError
from .cells import Cell, Spread
from .feature_sets import FIT
from .result import RunResult
from .subject import Subject

_DIGITS = 6


@dataclass(frozen=True)
class Repeats:
    """Several models, each by what names it in `bench`, that are one model trained several times.

    >>> seeds = th.Repeats("r18", ("features:seed0", "features:seed1"))
    >>> seeds.name
    'r18'
    """

    name: str
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.name or "=" in self.name:
            raise InputError(f"a model with repeats needs a name without '=', got {self.name!r}")
        if len(self.models) < 2:
            raise InputError(f"{self.name} has {len(self.models)} repeat: a deviation needs at least two")

    @property
    def named(self) -> dict[str, str]:
        """What names each model, by its name in a result."""
        return dict(zip(self.members, self.models, strict=True))

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the repeats in a result."""
        return tuple(f"{self.name} #{place}" for place in range(1, len(self.models) + 1))


@dataclass(frozen=True)
class Repeated:
    """What decides whether a subject can be a repeat of another."""

    name: str
    classes: int
    samples: Mapping[str, int]
    digests: Mapping[str, str]

    @classmethod
    def of(cls, subject: Subject) -> Repeated:
        samples = {part: len(rows) for part, rows in subject.sets.items()}
        return cls(subject.name, subject.head.classes, samples, subject.digests)


def require_repeats(name: str, members: Sequence[Repeated]) -> None:
    """Refuse repeats that were not judged on the same sets, or that are the same features twice."""
    first, *others = members
    for other in others:
        judged = [
            {part: count for part, count in one.samples.items() if part != FIT} for one in (first, other)
        ]
        if first.classes != other.classes or judged[0] != judged[1]:
            raise InputError(
                f"{first.name} and {other.name} cannot be repeats of {name}: they have "
                f"{first.classes} and {other.classes} classes, and were judged on "
                f"{_sets(judged[0])} and on {_sets(judged[1])}"
            )
    for one, other in combinations(members, 2):
        if one.digests and one.digests == other.digests:
            raise InputError(
                f"{one.name} and {other.name} are the same features and head, digest for digest: "
                f"as repeats of {name} they would say that nothing varies"
            )


def repeats_among(models: Sequence[str | Repeats], subjects: Sequence[Subject]) -> dict[str, tuple[str, ...]]:
    """The names of repeats by that of their model; whether they can be such is known before any score."""
    found = {subject.name: subject for subject in subjects}
    repeats = {model.name: model.members for model in models if isinstance(model, Repeats)}
    for name, members in repeats.items():
        if name in found:
            raise InputError(f"a model is called {name!r} already: choose another name for the repeats")
        require_repeats(name, [Repeated.of(found[member]) for member in members])
    return repeats


def with_repeats(result: RunResult, repeats: Mapping[str, Sequence[str]]) -> RunResult:
    """The result with one model more for every name: the means over its repeats, which are subjects of it.

    A cell has its mean only where every repeat has it. The deviation is that of a sample, n − 1 in the
    denominator; a published value stands beside a mean where it does beside every repeat.
    """
    cells = list(result.cells)
    for name, members in repeats.items():
        unknown = [member for member in members if member not in result.subjects]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is no model of this result: it has {', '.join(result.subjects)}"
            )
        if name in result.subject_names:
            raise InputError(f"a model is called {name!r} already: choose another name for the repeats")
        if len(members) < 2:
            raise InputError(f"{name} has {len(members)} repeat: a deviation needs at least two")
        facts = [(member, result.subjects[member]) for member in members]
        require_repeats(
            name, [Repeated(member, fact.classes, fact.samples, fact.digests) for member, fact in facts]
        )
        cells += _means(result, name, members)
    kept = {**result.repeats, **{name: tuple(members) for name, members in repeats.items()}}
    return replace(result, cells=tuple(cells), repeats=kept)


def _means(result: RunResult, name: str, members: Sequence[str]) -> list[Cell]:
    found: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in result.cells:
        if cell.subject in members:
            found.setdefault((cell.detector, cell.ood, cell.metric), []).append(cell)
    means = []
    for cells in found.values():
        if len(cells) == len(members):
            values = np.array([cell.value for cell in cells])
            published = {cell.published for cell in cells}
            means.append(
                replace(
                    cells[0],
                    subject=name,
                    value=round(float(values.mean()), _DIGITS),
                    interval=None,
                    published=published.pop() if len(published) == 1 else (),
                    spread=Spread(round(float(values.std(ddof=1)), _DIGITS), len(values)),
                )
            )
    return means


def _sets(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{part} ({count:,})" for part, count in counts.items())
