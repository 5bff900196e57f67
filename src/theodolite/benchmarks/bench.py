"""A benchmark in one call: a protocol and models by name, every score on them, one result.

result = bench("features:FOLDER")
result = bench("imagenet", ["convnext", "swin"], detectors=["ora", "knn?k=200"], ensemble=True)
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from .extraction import Extraction
from .feature_folder import from_folder
from .measure import Intervals
from .protocols import Protocol as BenchProtocol
from .protocols import find_protocol
from .protocols import protocol as protocol_called
from .result import HIGHLIGHT, RunResult
from .runner import Highlight, run
from .subject import Subject
from .views import ViewRequest, requests

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
    and ``verify`` are as in `ExtractionSettings`. ``layers`` are named of every model, for scores of several.
    """

    weights: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    cache: Path | None = None
    running: Running = field(default_factory=Running)
    command: str | None = None
    watcher: Watcher = field(default_factory=Unwatched)
    repair: bool = False
    verify: bool = False
    layers: Sequence[str] = ()

    @property
    def place(self) -> Path:
        return cache_folder(self.cache) / "bench"


def bench(
    protocol: str | BenchProtocol,
    models: Sequence[str] = (),
    *,
    detectors: Sequence[str] = (),
    shapings: Sequence[str] = (),
    ensemble: bool = False,
    intervals: Intervals | None = None,
    highlight: str = HIGHLIGHT,
    settings: BenchSettings | None = None,
) -> RunResult:
    """Measure scores on a protocol, next to the published values; what is kept on disk is not done again.

    ``protocol`` is one by name, one of your own (`own_protocol`), or ``features:FOLDER``, a feature folder;
    others may join it as models. ``detectors`` are specs such as ``knn?k=200``, all scores by default, and
    each again behind every one of ``shapings``. ``highlight`` is the score that chooses the samples shown.

    On a model, a score that changes its inputs (``odin``) has a row so, and one in its form on features;
    with ``settings.layers``, scores that need no head have one more, on every layer.
    """
    settings = settings or BenchSettings()
    chosen = None if _is_folder(protocol) else _protocol(protocol)
    names = _models(protocol, models, settings.weights)
    parse = partial(parse_specs, detectors, shapings=shapings)
    gatherer = _Gatherer(chosen, settings)
    if chosen is None:
        # Feature folders say themselves which protocol they belong to, and with it which settings.
        subjects = [gatherer.subject(name) for name in names]
        named = {subject.protocol for subject in subjects}
        known = find_protocol(named.pop()) if len(named) == 1 else None
        shown = [subject.shown for subject in subjects]
        asking = any(one.model_score is not None for one in shown)
        layers = any(one.rows is not None for one in shown)
        specs = parse(settings={} if known is None else known.settings, model=asking, layers=layers)
    else:
        if len(settings.layers) == 1:
            raise InputError(
                f"--layer {settings.layers[0]} is one layer: name several, of which the last linear layer "
                f"may be one; the features in front of it always count"
            )
        # Before the models: a wrong name is known at once.
        specs = parse(settings=chosen.settings, model=True, layers=len(settings.layers) > 1)
        gatherer.views = requests(specs, settings.layers)
        subjects = [gatherer.subject(name) for name in names]
    return run(
        subjects,
        specs,
        title=chosen.title if chosen is not None else ", ".join(subject.name for subject in subjects),
        command=settings.command or _command(protocol, models, detectors, shapings, ensemble),
        ensemble=ensemble,
        intervals=intervals,
        cache=settings.place / "scores",
        highlight=Highlight(highlight, gatherer.picture),
        progress=settings.watcher.scoring,
    )


class _Gatherer:
    """Opens feature folders, and extracts the features of models."""

    def __init__(self, protocol: BenchProtocol | None, settings: BenchSettings) -> None:
        self.protocol = protocol
        self.settings = settings
        self.root = data_root(settings.root)
        self.views: Sequence[ViewRequest] = ()
        self._sources: dict[str, ImageSource | None] = {}

    def subject(self, name: str) -> Subject:
        if _is_folder(name):
            return from_folder(name.removeprefix(FEATURES))
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
            views=self.views,
        )
        return extraction.subject(name, self.settings.weights.get(name))

    def picture(self, data_set: str, row: int) -> Image.Image | None:
        """The picture of a sample, where its data set is here; rows of a store without gaps are samples."""
        if self.protocol is None or self.settings.running.skip_unreadable:
            return None
        if data_set not in self._sources:
            part = next((part for part in self.protocol.sets if part.name == data_set), None)
            self._sources[data_set] = None if part is None else part.open(self.root)
        source = self._sources[data_set]
        return None if source is None else upright(as_picture(source[row].image))


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


def _command(
    protocol: str | BenchProtocol,
    models: Sequence[str],
    detectors: Sequence[str],
    shapings: Sequence[str],
    ensemble: bool,
) -> str:
    """The command that does the same."""
    words = ["theodolite", "bench", protocol if isinstance(protocol, str) else protocol.name]
    for option, values in (("--model", models), ("--detector", detectors), ("--shaping", shapings)):
        words += [word for value in values for word in (option, value)]
    return shlex.join([*words, *(["--ensemble"] if ensemble else [])])
