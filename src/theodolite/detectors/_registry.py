"""The registry: one record a score, found by its name in any of the spellings papers use."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from ._base import Detector

Kind = TypeVar("Kind", bound="type[Detector]")
# What a hyper-parameter can be.
OptionValue: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True)
class OnFeatures:
    """How a score that changes the model's input works where only features are at hand.

    ``options`` are then fixed, and ``mark`` stands behind the score's title.

    >>> th.detector_record("odin").on_features
    OnFeatures(options={'noise': 0.0}, mark='...')
    """

    options: Mapping[str, float] = field(default_factory=dict)
    mark: str = ""


FEATURES_AS_THEY_ARE = OnFeatures()


@dataclass(frozen=True)
class Record:
    """What is known of a score without running it; ``entered`` is when its module was imported.

    >>> record = th.detector_record("EBO")
    >>> record.name, record.title, record.year, record.formula
    ('energy', 'Energy', 2020, 'T · log Σ_c exp(l_c / T)')
    """

    name: str
    title: str
    paper: str
    year: int
    formula: str
    aliases: tuple[str, ...]
    detector: type[Detector]
    on_features: OnFeatures = FEATURES_AS_THEY_ARE
    entered: float = field(default_factory=time.time, compare=False, repr=False)


_records: dict[str, Record] = {}
_by_spelling: dict[str, Record] = {}


def register(
    name: str,
    *,
    title: str,
    paper: str,
    year: int,
    formula: str,
    aliases: tuple[str, ...] = (),
    on_features: OnFeatures = FEATURES_AS_THEY_ARE,
) -> Callable[[Kind], Kind]:
    """Class decorator: enter a detector under ``name`` and its other spellings.

    >>> @th.register("first-logit", title="First logit", paper="nobody's", year=2026, formula="l_1")
    ... class FirstLogit(th.Detector):
    ...     def _score(self, features, logits): return logits[:, 0]
    >>> th.create("first-logit").fit(np.zeros((4, 2)), head=th.Head(np.eye(2))).score(np.array([[5.0, 7.0]]))
    array([5.])
    """

    def enter(detector: Kind) -> Kind:
        record = Record(name, title, paper, year, formula, aliases, detector, on_features)
        for spelling in (name, title, *aliases):
            if _by_spelling.setdefault(_normal(spelling), record) is not record:
                raise ValueError(f"{spelling!r} is taken by {_by_spelling[_normal(spelling)].name!r}")
        _records[name] = record
        detector.record = record
        return detector

    return enter


def list_detectors(pattern: str = "*", *, of_layers: bool = False, of_words: bool = False) -> list[str]:
    """The registered names, sorted; ``pattern`` is a shell pattern such as ``"*cos"``.

    Scores of the features in front of the head; those ``of_layers`` are others, see `MultiLayer`, and those
    ``of_words``, which are held against the names of the classes, others again.

    >>> th.list_detectors("*cos")
    ['pcos', 'rcos']
    """
    return sorted(
        name
        for name, record in _records.items()
        if fnmatch(name, pattern)
        and (record.detector.of_layers, record.detector.of_words) == (of_layers, of_words)
    )


def detector_record(name: str) -> Record:
    """The record of a score, by any of its spellings.

    >>> th.detector_record("relative-angles").title
    'ORA'
    """
    record = _by_spelling.get(_normal(name))
    if record is None:
        known = [*list_detectors(), *list_detectors(of_layers=True), *list_detectors(of_words=True)]
        hint = did_you_mean(name.lower(), known)
        raise InputError(f"no detector is called {name!r}{hint} Known: {', '.join(known)}")
    return record


def create(name: str, **options: Any) -> Detector:
    """A detector by name: ``create("ora", aggregate="mean")``.

    >>> th.create("knn", k=20).options()["k"]
    20
    """
    record = detector_record(name)
    try:
        return record.detector(**options)
    except TypeError as error:
        raise InputError(f"{record.name}: {error}") from error


def _normal(spelling: str) -> str:
    return "".join(letter for letter in spelling.lower() if letter not in "-_ ")
