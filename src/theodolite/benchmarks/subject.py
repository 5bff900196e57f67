"""A subject of a benchmark: one model's features of every set, extracted now or on disk already.

The stores of a run lie in ``CACHE/PROTOCOL/MODEL/SET``: that folder is a feature folder, and can be run
again from there without the pictures (``theodolite bench features:FOLDER``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .. import published
from ..core.errors import InputError, did_you_mean
from ..core.files import write_json
from ..features.extract import Running, extract
from ..features.store import is_store
from ..models import LoadedModel, list_models, load_model
from ..models.registry import spelled
from ..reference.head import Head
from .feature_sets import (
    ABOUT,
    FeatureSet,
    FileSet,
    StoreSet,
    head_digest,
    open_set,
    outlier_names,
    read_about,
    read_head,
)
from .protocols import FIT, OWN, PROTOCOLS, TEST, Part, Protocol

Say = Callable[[str], None]
AVERAGE = published.AVERAGE
# Sources whose released weights are files of one's own.
_FILES_ONLY = ("scl:", "oe:")


@dataclass(frozen=True)
class Subject:
    """The features of one model. ``missing`` says which sets were left out, and why."""

    name: str
    head: Head
    fit: FeatureSet
    test: FeatureSet
    ood: Mapping[str, FeatureSet]
    backbone: str | None = None
    protocol: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def digests(self) -> dict[str, str]:
        sets = {FIT: self.fit, TEST: self.test, **self.ood}
        return {"head": head_digest(self.head), **{name: rows.digest for name, rows in sets.items()}}

    def __post_init__(self) -> None:
        for name, rows in {FIT: self.fit, TEST: self.test, **self.ood}.items():
            width = getattr(rows, "width", self.head.width)
            if width != self.head.width:
                raise InputError(
                    f"{self.name}, {name}: features have width {width}, "
                    f"but the head expects {self.head.width}"
                )


def from_folder(folder: str | Path, *, name: str | None = None) -> Subject:
    """The subject in a feature folder."""
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise InputError(f"the feature folder {place} does not exist")
    fit, test = (_required(place, part) for part in (FIT, TEST))
    names = outlier_names(place)
    if AVERAGE in names:
        raise InputError(f"{place}: an OOD set cannot be called {AVERAGE!r}, tables use that name")
    if not names:
        raise InputError(f"{place} holds no OOD set: put NAME.safetensors with features beside id_test")
    ood = {outliers: _required(place, outliers) for outliers in names}
    about = read_about(place)
    _require_known(about, place)
    return Subject(
        name or about.get("name") or place.resolve().name,
        read_head(place),
        fit,
        test,
        ood,
        backbone=about.get("backbone"),
        protocol=about.get("protocol"),
        folder=place,
    )


def _require_known(about: Mapping[str, Any], folder: Path) -> None:
    """A misspelt backbone would silently find no published number."""
    protocol, backbone = about.get("protocol"), about.get("backbone")
    if backbone is None or protocol == OWN:
        return
    if protocol not in PROTOCOLS:
        raise InputError(
            f"{folder / ABOUT}: no protocol is called {protocol!r}{did_you_mean(str(protocol), PROTOCOLS)} "
            f"Known: {', '.join(PROTOCOLS)}"
        )
    known = sorted({*published.backbones(), *(card.alias for card in list_models())})
    if backbone not in known:
        raise InputError(
            f"{folder / ABOUT}: no table of the paper has a backbone {backbone!r}"
            f"{did_you_mean(str(backbone), known)} Known: {', '.join(known)}"
        )


def _required(folder: Path, name: str) -> FileSet | StoreSet:
    found = open_set(folder, name)
    if found is None:
        raise InputError(f"{folder} has neither {name}.safetensors nor a feature store {name}/")
    return found


def backbone_of(spec: str) -> str | None:
    """The paper's name for a model, where it has one."""
    wanted = spelled(spec)
    return next((card.alias for card in list_models() if spelled(card.spec) == wanted), None)


class Extraction:
    """Brings the features of a protocol's sets under one model into stores below ``cache``."""

    def __init__(
        self,
        protocol: Protocol,
        cache: Path,
        root: Path | None,
        *,
        running: Running | None = None,
        batch_size: int | None = None,
        say: Say = lambda _: None,
        progress: Callable[[str, int, int], None] = lambda _name, _done, _total: None,
    ) -> None:
        self.protocol = protocol
        self.cache = cache
        self.root = root
        self.running = running or Running()
        self.batch_size = batch_size
        self.say = say
        self.progress = progress

    def subject(
        self,
        spec: str,
        weights: Path | None = None,
        loaded: LoadedModel | None = None,
        backbone: str | None = None,
        place: str | None = None,
    ) -> Subject:
        """The features of every set: extracted, resumed, or taken from complete stores.

        A model at hand is passed as ``loaded``; then ``spec`` is only its name. ``place`` names its folder.
        """
        if loaded is None and (weights is None or spelled(spec).startswith(_FILES_ONLY)):
            backbone = backbone_of(spec)  # a checkpoint of one's own is not the paper's network
        folder = self.cache / self._place() / _slug(place or spec)
        sets: dict[str, FeatureSet] = {}
        missing: dict[str, str] = {}
        for part in self.protocol.parts:
            source = part.open(self.root)
            if source is None and part.card is None:
                raise InputError(f"{part.name}: {part.path} does not exist (looked from {Path.cwd()})")
            if source is None:
                kept = folder / part.name
                if is_store(kept):
                    sets[part.name] = StoreSet(kept)
                    self.say(f"{part.name}: no pictures here, its store is used")
                else:
                    missing[part.name] = self._why(part)
                continue
            loaded = loaded or load_model(spec, weights=weights)
            folder.mkdir(parents=True, exist_ok=True)
            extract(
                loaded,
                source,
                folder / part.name,
                name=str(part.path or part.name),
                weights_file=None if weights is None else str(weights),
                batch_size=self.batch_size,
                running=self.running,
                progress=partial(self.progress, part.name),
            )
            sets[part.name] = StoreSet(folder / part.name)
        if loaded is not None:
            _require_features_of(loaded, sets)
        return self._complete(spec, backbone, folder, sets, missing)

    def _place(self) -> str:
        """The folder of the protocol; one's own are told apart by their paths."""
        paths = [str(part.path.resolve()) for part in self.protocol.parts if part.path is not None]
        if not paths:
            return _slug(self.protocol.name)
        return f"{_slug(self.protocol.name)}-{hashlib.sha256(chr(0).join(paths).encode()).hexdigest()[:12]}"

    def _complete(
        self,
        spec: str,
        backbone: str | None,
        folder: Path,
        sets: dict[str, FeatureSet],
        missing: dict[str, str],
    ) -> Subject:
        for name in (FIT, TEST):
            if name in missing:
                raise InputError(
                    f"{spec} cannot run on {self.protocol.name}: {name} is missing, {missing[name]}"
                )
        outliers = {part.name: sets[part.name] for part in self.protocol.ood if part.name in sets}
        if not outliers:
            lines = "; ".join(f"{name}: {why}" for name, why in missing.items())
            raise InputError(f"{spec} cannot run on {self.protocol.name}: no OOD set is present ({lines})")
        about = {"name": spec, "protocol": self.protocol.name, "backbone": backbone}
        write_json(folder / ABOUT, about)
        return Subject(
            spec,
            read_head(folder),
            sets[FIT],
            sets[TEST],
            outliers,
            backbone,
            self.protocol.name,
            missing,
            folder,
        )

    def _why(self, part: Part) -> str:
        found = part.presence(self.root)
        if found is None:
            return f"{part.path} does not exist"
        return f"{found.detail}. How to get it: {found.card.obtain}"


def _require_features_of(loaded: LoadedModel, sets: Mapping[str, FeatureSet]) -> None:
    """Stores that stand in for absent pictures must be of the same model."""
    for name, rows in sets.items():
        recipe = rows.store.manifest.recipe if isinstance(rows, StoreSet) else None
        if recipe is not None and (recipe.weights, recipe.preprocess) != (
            loaded.digest,
            loaded.preprocess_id,
        ):
            raise InputError(
                f"{name}: its pictures are not here, and its store has features of other weights or another "
                f"preprocessing than {loaded.spec}"
            )


def _slug(text: str) -> str:
    """A spec as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-")
