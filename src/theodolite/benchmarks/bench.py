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
from ..data.sample import PICTURES, held_by
from ..detectors.spec import DetectorSpec
from ..features.settings import Running
from .asked import FEATURES, Asked, is_folder, models_by_name, settings_lost, settings_of, title_of
from .extraction import Extraction
from .feature_folder import from_folder
from .feature_sets import TEST
from .joining import join
from .measure import Intervals
from .paired import Pairing
from .protocols import Protocol as BenchProtocol
from .protocols import protocol as protocol_called
from .ranking import Ranking
from .repeats import Repeats, repeats_among, with_repeats
from .result import HIGHLIGHT, RunResult
from .runner import Highlight, run
from .subject import Subject
from .views import ViewRequest, requests


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
    ``highlight`` is the score that chooses the samples shown. With ``force`` a model is measured although its
    head seems not to be that of its features.

    >>> settings = th.BenchSettings(cache=None, command="my_script.py", running=th.Running(device="cpu"))
    >>> settings.highlight
    'ORA'
    """

    weights: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    cache: Path | None = None
    running: Running = field(default_factory=Running)
    command: str | None = None
    watcher: Watcher = field(default_factory=Unwatched)
    repair: bool = False
    verify: bool = False
    highlight: str = HIGHLIGHT
    force: bool = False
    layers: Sequence[str] = ()

    @property
    def place(self) -> Path:
        return cache_folder(self.cache) / "bench"


def bench(
    protocol: str | BenchProtocol,
    models: Sequence[str | Repeats] = (),
    *,
    detectors: Sequence[str] = (),
    shapings: Sequence[str] = (),
    ensemble: bool | Sequence[str] = False,
    intervals: Intervals | None = None,
    against: str | None = None,
    full_spectrum: bool = False,
    rankings: Sequence[Ranking] = (),
    settings: BenchSettings | None = None,
) -> RunResult:
    """Measure scores on a protocol, next to the published values; what is kept on disk is not done again.

    ``protocol`` is one by name, one of your own (`own_protocol`), or ``features:FOLDER``, a feature folder;
    others may join it as models (``features`` alone: all are). `Repeats` among the models are one model
    measured several times. ``detectors`` are specs such as ``knn?k=200``, all scores by default, and each
    again behind every one of ``shapings``; every score is held ``against`` one of them, if asked, by paired
    bootstrap tests. ``ensemble`` adds the models together, by the plain sum or by the rules it names
    (``["sum", "standardised", "p-values"]``). ``full_spectrum`` counts shifted ID data as ID, on protocols
    that have such. ``rankings`` are choices of `tune`, whose scores join the detectors, or are all of them
    where none is named; refused on rows that decided them. A model that gives the labels of its ID data
    hardly more often than by chance, or far less often than its features would (`evaluation.agreement`), is
    refused, unless forced.

    On a model, a score that changes its inputs (``odin``) has a row so, and one in its form on features;
    with ``settings.layers``, scores that need no head have one more, on every layer.

    >>> from safetensors.numpy import save_file
    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(150) % 3, np.random.default_rng(0)
    >>> save_file({"weight": means, "bias": np.zeros(3)}, "head.safetensors")
    >>> for name in ("id_fit", "id_test"):
    ...     rows = means[labels] + rng.normal(size=(150, 8))
    ...     save_file({"features": rows, "labels": labels}, f"{name}.safetensors")
    >>> save_file({"features": rng.normal(size=(150, 8))}, "fog.safetensors")
    >>> result = th.bench("features:.", detectors=["ora", "msp"])
    >>> sorted({cell.detector for cell in result.cells})
    ['MSP', 'ORA']
    """
    settings, intervals = settings or BenchSettings(), intervals or Intervals()
    detectors = list(dict.fromkeys([*detectors, *(choice.chosen for choice in rankings)]))
    chosen = None if is_folder(protocol) else _protocol(protocol, full_spectrum=full_spectrum)
    names = models_by_name(protocol, models, settings.weights)
    gatherer = _Gatherer(chosen, settings, full_spectrum=full_spectrum)
    asked = Asked(detectors, shapings, against)
    subjects, specs, reference = gatherer.gathered(names, asked)
    for choice in rankings:
        _require_apart(choice, subjects)
    repeats = repeats_among(models, subjects)
    flags = {"--ensemble": ensemble is True, "--full-spectrum": full_spectrum, "--force": settings.force}
    rules = () if isinstance(ensemble, bool) else ensemble
    repeated = {"--combine": rules, "--layer": settings.layers}
    command = asked.command(protocol, models, repeated, settings.weights, flags, intervals)
    result = run(
        subjects,
        specs,
        title=chosen.title if chosen is not None else title_of(subjects, repeats),
        command=settings.command or command,
        ensemble=ensemble,
        intervals=intervals,
        cache=settings.place / "scores",
        highlight=Highlight(settings.highlight, gatherer.picture, gatherer.looked_at),
        force=settings.force,
        progress=settings.watcher.scoring,
    )
    result = join(with_repeats(_telling(result, rankings, gatherer.notes), repeats))
    if reference is None:
        return result
    tests = Pairing(reference, tuple(intervals.names), intervals.tests, intervals.level, intervals.seed)
    return replace(result, paired=tests.of(result.evaluations))


def _telling(result: RunResult, rankings: Sequence[Ranking], notes: Sequence[str] = ()) -> RunResult:
    """The result with further notes, in which every score that was chosen says on what.

    By its label: a score that changes a model's inputs, and its form on features, are one text.
    """
    told = {choice.ranked[0].label: choice.statement for choice in rankings}
    facts = {label: replace(fact, chosen_on=told.get(label)) for label, fact in result.detectors.items()}
    return replace(result, detectors=facts, notes=(*notes, *result.notes))


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
        self.views: Sequence[ViewRequest] = ()
        self.notes: Sequence[str] = ()
        self._sources: dict[str, ImageSource | None] = {}

    def gathered(
        self, names: Mapping[str, str], asked: Asked
    ) -> tuple[list[Subject], list[DetectorSpec], str | None]:
        """The subjects of models by name; the scores of the run, and the one that all are held against."""
        if self.protocol is not None:
            layers = self.settings.layers
            if len(layers) == 1:
                raise InputError(
                    f"--layer {layers[0]} is one layer: name several, of which the last linear layer may be "
                    f"one; the features in front of it always count"
                )
            # Before the models: a wrong name is known at once.
            specs, reference = asked.specs(self.protocol.settings, model=True, layers=len(layers) > 1)
            self.views = requests(specs, layers)
            return [self.subject(spec, name) for name, spec in names.items()], specs, reference
        if self.settings.layers:
            raise InputError(
                "--layer is for models that look at pictures: a feature folder has the layers that it was "
                "extracted with"
            )
        # Feature folders say themselves which protocol they belong to, and with it which settings.
        subjects = [self.subject(spec, name) for name, spec in names.items()]
        specs, reference = asked.specs(
            settings_of(subjects),
            model=any(subject.shown.model_score is not None for subject in subjects),
            layers=any(subject.shown.rows is not None for subject in subjects),
        )
        self.notes = settings_lost(subjects, specs)
        return subjects, specs, reference

    def subject(self, spec: str, name: str) -> Subject:
        """The subject of a spec; repeats have names of their own."""
        own = None if name == spec else name
        if spec.startswith(FEATURES):
            return from_folder(spec.removeprefix(FEATURES), name=own, full_spectrum=self.full_spectrum)
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
            views=self.views,
        )
        self.looked_at.add(name)
        weights = self.settings.weights
        return extraction.subject(spec, weights.get(name, weights.get(spec)), name=own)

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
                if source is None or held_by(source) != PICTURES:
                    return None
                return upright(as_picture(source[row].image))
            row -= len(source)
        return None


def _protocol(given: str | BenchProtocol, *, full_spectrum: bool) -> BenchProtocol:
    found = protocol_called(given) if isinstance(given, str) else given
    return found.as_full_spectrum() if full_spectrum else found
