"""A benchmark in one call: a protocol and models by name, every score on them, one result.

result = bench("features:FOLDER")
result = bench("imagenet", ["convnext", "swin"], detectors=["ora", "knn?k=200"], ensemble=True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from PIL import Image

from ..core.errors import InputError
from ..core.places import cache_folder, data_root
from ..data import ImageSource, as_picture
from ..data.orientation import upright
from ..detectors.spec import parse_specs
from ..features.settings import Running
from .command import command_of
from .extraction import Extraction
from .feature_folder import from_folder
from .feature_sets import TEST
from .measure import Intervals
from .protocols import Protocol as BenchProtocol
from .protocols import find_protocol
from .protocols import protocol as protocol_called
from .ranking import Ranking
from .result import HIGHLIGHT, RunResult
from .runner import Highlight, run
from .subject import Subject

FEATURES = "features:"


class Watcher(Protocol):
    """Told how far a benchmark is."""

    def say(self, text: str) -> None:
        """A line worth knowing."""

    def extracting(self, model: str, data_set: str, done: int, total: int) -> None:
        """Samples of a set whose features are there."""

    def scoring(self, model: str, data_set: str, done: int, total: int) -> None:
        """Samples of a set that are scored."""


class Unwatched:
    """Says nothing."""

    def say(self, text: str) -> None: ...

    def extracting(self, model: str, data_set: str, done: int, total: int) -> None: ...

    def scoring(self, model: str, data_set: str, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class BenchSettings:
    """Where things lie and how models run; none of it decides what is measured.

    ``weights`` are checkpoints of models by the name they are given under; ``root`` is the folder of all data
    sets, ``cache`` that of kept features and scores; ``command`` is what the result says made it. ``repair``
    and ``verify`` are as in `ExtractionSettings`.
    """

    weights: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    cache: Path | None = None
    running: Running = field(default_factory=Running)
    command: str | None = None
    watcher: Watcher = field(default_factory=Unwatched)
    repair: bool = False
    verify: bool = False

    @property
    def place(self) -> Path:
        return cache_folder(self.cache) / "bench"


def bench(
    protocol: str | BenchProtocol,
    models: Sequence[str] = (),
    *,
    detectors: Sequence[str] = (),
    shapings: Sequence[str] = (),
    ensemble: bool | Sequence[str] = False,
    intervals: Intervals | None = None,
    highlight: str = HIGHLIGHT,
    full_spectrum: bool = False,
    force: bool = False,
    settings: BenchSettings | None = None,
    rankings: Sequence[Ranking] = (),
) -> RunResult:
    """Measure scores on a protocol, next to the published values; what is kept on disk is not done again.

    ``protocol`` is one by name, one of your own (`own_protocol`), or ``features:FOLDER``, a feature folder;
    others may join it as models. ``detectors`` are specs such as ``knn?k=200``, all scores by default, and
    each again behind every one of ``shapings``. ``ensemble`` adds the models together, by the plain sum or
    by the rules it names (``["sum", "standardised", "p-values"]``). ``full_spectrum`` counts shifted ID data
    as ID, on protocols that have such. ``rankings`` are choices of `tune`, whose scores join the detectors;
    refused on rows that decided them. A model that gives the labels of its ID data hardly more often than by
    chance, or far less often than its features would (`evaluation.agreement`), is refused, unless forced.
    """
    settings = settings or BenchSettings()
    detectors = list(dict.fromkeys([*detectors, *(choice.chosen for choice in rankings)]))
    chosen = None if _is_folder(protocol) else _protocol(protocol)
    if chosen is not None and full_spectrum:
        chosen = chosen.as_full_spectrum()
    names = _models(protocol, models, settings.weights)
    parse = partial(parse_specs, detectors, shapings=shapings)
    gatherer = _Gatherer(chosen, settings, full_spectrum=full_spectrum)
    if chosen is None:
        # Feature folders say themselves which protocol they belong to, and with it which settings.
        subjects = [gatherer.subject(name) for name in names]
        named = {subject.protocol for subject in subjects}
        known = find_protocol(named.pop()) if len(named) == 1 else None
        specs = parse(settings={} if known is None else known.settings)
    else:
        specs = parse(settings=chosen.settings)  # before the models: a wrong name is known at once
        subjects = [gatherer.subject(name) for name in names]
    for choice in rankings:
        _require_apart(choice, subjects)
    result = run(
        subjects,
        specs,
        title=chosen.title if chosen is not None else _title(subjects),
        command=settings.command
        or command_of(
            protocol,
            repeated={
                "--model": models,
                "--detector": detectors,
                "--shaping": shapings,
                "--combine": () if isinstance(ensemble, bool) else ensemble,
            },
            weights=settings.weights,
            flags={"--ensemble": ensemble is True, "--full-spectrum": full_spectrum, "--force": force},
            intervals=intervals,
        ),
        ensemble=ensemble,
        intervals=intervals,
        cache=settings.place / "scores",
        highlight=Highlight(highlight, gatherer.picture, gatherer.looked_at),
        force=force,
        progress=settings.watcher.scoring,
    )
    told = {choice.chosen: choice.statement for choice in rankings}
    facts = {
        label: replace(fact, chosen_on=told.get(fact.text or "")) for label, fact in result.detectors.items()
    }
    return replace(result, detectors=facts)


def _require_apart(choice: Ranking, subjects: Sequence[Subject]) -> None:
    """A choice is not judged on the rows that it was made on."""
    for subject in subjects:
        for name, rows in subject.judged.items():
            choice.require_apart(f"{subject.name}, {name}", rows)


class _Gatherer:
    """Opens feature folders, and extracts the features of models."""

    def __init__(
        self, protocol: BenchProtocol | None, settings: BenchSettings, *, full_spectrum: bool = False
    ) -> None:
        self.protocol = protocol
        self.full_spectrum = full_spectrum or (protocol is not None and protocol.full_spectrum)
        self.settings = settings
        self.root = data_root(settings.root)
        self.looked_at: set[str] = set()
        self._sources: dict[str, ImageSource | None] = {}

    def subject(self, name: str) -> Subject:
        if _is_folder(name):
            return from_folder(name.removeprefix(FEATURES), full_spectrum=self.full_spectrum)
        if self.protocol is None:
            raise InputError(
                f"{name}: a feature folder can only be joined by others, --model features:FOLDER"
            )
        watcher = self.settings.watcher
        extraction = Extraction(
            self.protocol,
            self.settings.place,
            self.root,
            running=self.settings.running,
            say=lambda text: watcher.say(f"{name}, {text}"),
            progress=partial(watcher.extracting, name),
            repair=self.settings.repair,
            verify=self.settings.verify,
        )
        self.looked_at.add(name)
        return extraction.subject(name, self.settings.weights.get(name))

    def picture(self, data_set: str, row: int) -> Image.Image | None:
        """The picture of a sample, where its data set is here; rows of a store without gaps are samples."""
        if self.protocol is None or self.settings.running.skip_unreadable:
            return None
        # Shifted ID data stand behind the held-out data, as their rows do.
        named = [part for part in self.protocol.ood if part.name == data_set]
        for part in self.protocol.known if data_set == TEST else named:
            if part.name not in self._sources:
                self._sources[part.name] = part.open(self.root)
            source = self._sources[part.name]
            if source is None or row < len(source):
                return None if source is None else upright(as_picture(source[row].image))
            row -= len(source)
        return None


def _title(subjects: Sequence[Subject]) -> str:
    """Of feature folders their names."""
    names = ", ".join(subject.name for subject in subjects)
    return f"{names}, full-spectrum" if any(subject.shifted for subject in subjects) else names


def _is_folder(name: str | BenchProtocol) -> bool:
    return isinstance(name, str) and name.startswith(FEATURES)


def _protocol(given: str | BenchProtocol) -> BenchProtocol:
    return protocol_called(given) if isinstance(given, str) else given


def _models(given: str | BenchProtocol, models: Sequence[str], weights: Mapping[str, Path]) -> list[str]:
    """A feature folder named as the protocol is the first subject."""
    names = [given, *models] if isinstance(given, str) and _is_folder(given) else list(models)
    if not names:
        raise InputError("no model is given: pass --model SPEC (`theodolite models` lists the paper's)")
    unused = sorted(set(weights) - set(names))
    if unused:
        raise InputError(f"--weights names {unused[0]!r}, which is none of the models: {', '.join(names)}")
    return names
