"""A benchmark in one call: a protocol and models by name, every score on them, one result.

result = bench("features:FOLDER")
result = bench("imagenet", ["convnext", "swin"], detectors=["ora", "knn?k=200"], ensemble=True)
result = bench("features", [Repeats("vit", ("features:SEED0", "features:SEED1"))], against="ora")
"""

from __future__ import annotations

import shlex
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
from ..detectors.spec import DetectorSpec, Settings, parse_spec, parse_specs
from ..features.settings import Running
from .extraction import Extraction
from .feature_folder import from_folder
from .joining import join
from .measure import Intervals
from .paired import Pairing
from .protocols import Protocol as BenchProtocol
from .protocols import find_protocol
from .protocols import protocol as protocol_called
from .repeats import Repeats, repeats_among, with_repeats
from .result import HIGHLIGHT, RunResult
from .runner import Highlight, run
from .subject import Subject

FEATURES = "features:"
# In the place of a protocol: every model is a feature folder.
FOLDERS = "features"


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
    models: Sequence[str | Repeats] = (),
    *,
    detectors: Sequence[str] = (),
    shapings: Sequence[str] = (),
    ensemble: bool = False,
    intervals: Intervals | None = None,
    against: str | None = None,
    highlight: str = HIGHLIGHT,
    settings: BenchSettings | None = None,
) -> RunResult:
    """Measure scores on a protocol, next to the published values; what is kept on disk is not done again.

    ``protocol`` is one by name, one of your own (`own_protocol`), or ``features:FOLDER``, a feature folder;
    others may join it as models (``features`` alone: all are). `Repeats` among the models are one model
    measured several times. ``detectors`` are specs such as ``knn?k=200``, all scores by default, and each
    again behind every one of ``shapings``; every score is held ``against`` one of them, if asked, by paired
    bootstrap tests. ``highlight`` is the score that chooses the samples shown.
    """
    settings = settings or BenchSettings()
    chosen = None if _is_folder(protocol) else _protocol(protocol)
    names = _models(protocol, models, settings.weights)
    parse = partial(_specs, detectors, shapings, against)
    gatherer = _Gatherer(chosen, settings)
    if chosen is None:
        # Feature folders say themselves which protocol they belong to, and with it which settings.
        subjects = [gatherer.subject(spec, name) for name, spec in names.items()]
        named = {subject.protocol for subject in subjects}
        known = find_protocol(named.pop()) if len(named) == 1 else None
        specs, reference = parse({} if known is None else known.settings)
    else:
        specs, reference = parse(chosen.settings)  # before the models: a wrong name is known at once
        subjects = [gatherer.subject(spec, name) for name, spec in names.items()]
    repeats = repeats_among(models, subjects)
    intervals = intervals or Intervals()
    result = run(
        subjects,
        specs,
        title=chosen.title if chosen is not None else _title(subjects, repeats),
        command=settings.command or _command(protocol, models, detectors, shapings, ensemble, against),
        ensemble=ensemble,
        intervals=intervals,
        cache=settings.place / "scores",
        highlight=Highlight(highlight, gatherer.picture),
        progress=settings.watcher.scoring,
    )
    result = join(with_repeats(result, repeats))
    if reference is None:
        return result
    tests = Pairing(reference, tuple(intervals.names), intervals.tests, intervals.level, intervals.seed)
    return replace(result, paired=tests.of(result.evaluations))


class _Gatherer:
    """Opens feature folders, and extracts the features of models."""

    def __init__(self, protocol: BenchProtocol | None, settings: BenchSettings) -> None:
        self.protocol = protocol
        self.settings = settings
        self.root = data_root(settings.root)
        self._sources: dict[str, ImageSource | None] = {}

    def subject(self, spec: str, name: str) -> Subject:
        """The subject of a spec; repeats have names of their own."""
        own = None if name == spec else name
        if spec.startswith(FEATURES):
            return from_folder(spec.removeprefix(FEATURES), name=own)
        if self.protocol is None:
            raise InputError(
                f"{spec} needs a protocol: without one, or with a feature folder in its place, "
                f"every model is a feature folder, --model features:FOLDER"
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
        weights = self.settings.weights
        return extraction.subject(spec, weights.get(name, weights.get(spec)), name=own)

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
    return isinstance(name, str) and (name.startswith(FEATURES) or name == FOLDERS)


def _protocol(given: str | BenchProtocol) -> BenchProtocol:
    return protocol_called(given) if isinstance(given, str) else given


def _models(
    given: str | BenchProtocol, models: Sequence[str | Repeats], weights: Mapping[str, Path]
) -> dict[str, str]:
    """Every model by its name in the run; a feature folder named as the protocol is the first."""
    first = [given] if isinstance(given, str) and given.startswith(FEATURES) else []
    names: dict[str, str] = {}
    for model in (*first, *models):
        members = (
            {model: model} if isinstance(model, str) else dict(zip(model.members, model.models, strict=True))
        )
        doubled = sorted(names.keys() & members.keys())
        if doubled:
            raise InputError(f"two models are called the same: {doubled[0]}")
        names |= members
    if not names:
        raise InputError("no model is given: pass --model SPEC (`theodolite models` lists the paper's)")
    known = [*names, *names.values()]
    unused = sorted(set(weights) - set(known))
    if unused:
        raise InputError(
            f"--weights names {unused[0]!r}, which is none of the models: {', '.join(dict.fromkeys(known))}"
        )
    return names


def _title(subjects: Sequence[Subject], repeats: Mapping[str, Sequence[str]]) -> str:
    """The models by name, repeats as one."""
    model_of = {member: name for name, members in repeats.items() for member in members}
    return ", ".join(dict.fromkeys(model_of.get(subject.name, subject.name) for subject in subjects))


def _specs(
    detectors: Sequence[str], shapings: Sequence[str], against: str | None, settings: Settings
) -> tuple[list[DetectorSpec], str | None]:
    """The scores of the run, and the label of the one that all are held against."""
    specs = parse_specs(detectors, shapings=shapings, settings=settings)
    if against is None:
        return specs, None
    wanted = parse_spec(against, settings=settings).label
    labels = [spec.label for spec in specs]
    if wanted not in labels:
        raise InputError(
            f"--against {against}: {wanted} is no score of this run, which has {', '.join(labels)}"
        )
    return specs, wanted


def _command(
    protocol: str | BenchProtocol,
    models: Sequence[str | Repeats],
    detectors: Sequence[str],
    shapings: Sequence[str],
    ensemble: bool,
    against: str | None,
) -> str:
    """The command that does the same."""
    name = protocol if isinstance(protocol, str) else protocol.name
    words = ["theodolite", "bench", *([] if name == FOLDERS else [name])]
    alone = [model for model in models if isinstance(model, str)]
    repeats = [
        f"{model.name}={one}" for model in models if isinstance(model, Repeats) for one in model.models
    ]
    options = (("--model", alone), ("--repeat", repeats), ("--detector", detectors), ("--shaping", shapings))
    for option, values in options:
        words += [word for value in values for word in (option, value)]
    words += [] if against is None else ["--against", against]
    return shlex.join([*words, *(["--ensemble"] if ensemble else [])])
