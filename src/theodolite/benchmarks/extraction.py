"""The features of a protocol's sets under one model: extracted now, or taken from stores on disk.

The stores of a run lie in ``CACHE/PROTOCOL/MODEL/SET``: that folder is a feature folder, and can be run
again from there without the pictures (``theodolite bench features:FOLDER``).
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from ..core.errors import InputError, TheodoliteWarning
from ..core.files import slug
from ..data.sample import PICTURES
from ..features.extraction import fill_store
from ..features.settings import ExtractionSettings, Running
from ..features.store import is_store
from ..models import LoadedModel, list_models, load_model
from ..models.registry import canonical_spec
from .feature_folder import About, read_head, write_about
from .feature_sets import FIT, TEST, FeatureSet, StoreSet
from .full_spectrum import with_shifted
from .protocols import Protocol, ProtocolSet
from .subject import Subject
from .views import ViewRequest

Say: TypeAlias = Callable[[str], None]
Progress: TypeAlias = Callable[[str, int, int], None]
# Sources whose released weights are files of one's own.
_FILES_ONLY = ("scl:", "oe:")


@dataclass(frozen=True)
class Extraction:
    """Brings the features of a protocol's sets into stores below ``cache``.

    ``say`` gets a line now and then, ``progress`` the name of a set, its samples done and in all. ``views``
    are further features of the same pictures, in folders of their own beside.
    """

    protocol: Protocol
    cache: Path
    root: Path | None
    running: Running = field(default_factory=Running)
    say: Say = lambda _: None
    progress: Progress = lambda _name, _done, _total: None
    repair: bool = False
    verify: bool = False
    views: Sequence[ViewRequest] = ()

    def subject(self, spec: str, weights: Path | None = None, *, name: str | None = None) -> Subject:
        """The subject of a model by its spec, loaded only for pictures to look at or ``weights`` to compare.

        A ``name`` of its own, which is also in that of its folder, tells checkpoints of one model apart.
        """
        own = weights is not None and not canonical_spec(spec).startswith(_FILES_ONLY)
        # A checkpoint of one's own is not the paper's network.
        backbone = None if own else backbone_of(spec)
        load = cache(partial(load_model, spec, weights=weights))
        place = None if name is None else f"{spec} {name}"
        return self._with_views(name or spec, load, weights, backbone, place)

    def subject_of(self, loaded: LoadedModel, *, name: str, backbone: str | None = None) -> Subject:
        """The subject of a model at hand, under a name."""
        place = f"{name}-{loaded.digest[:12]}"
        return self._with_views(name, lambda: loaded, None, backbone, place)

    def _with_views(
        self,
        name: str,
        load: Callable[[], LoadedModel],
        weights: Path | None,
        backbone: str | None,
        place: str | None = None,
    ) -> Subject:
        """The subject, and its other views where their pictures or stores are here."""
        found = {}  # first: a layer that is not there is known before the rest is extracted
        for request in self.views:
            self.say(f"features of {request.view}")
            beside = f"{slug(place or name)}-{request.suffix}"
            try:
                found[request.view] = self._subject(name, load, weights, None, beside, request)
            except _MissingError as error:
                self.say(str(error))
        return replace(self._subject(name, load, weights, backbone, place), views=found)

    def _subject(
        self,
        name: str,
        load: Callable[[], LoadedModel],
        weights: Path | None,
        backbone: str | None,
        place: str | None = None,
        request: ViewRequest | None = None,
    ) -> Subject:
        request = request or ViewRequest(None, None)
        settings = ExtractionSettings(
            layer=request.layer,
            score=request.score,
            repair=self.repair,
            verify=self.verify,
            running=self.running,
        )
        folder = self.cache / self._place() / slug(place or name)
        sets: dict[str, FeatureSet] = {}
        missing: dict[str, str] = {}
        loaded: LoadedModel | None = None
        for part in self.protocol.sets:
            source = part.open(self.root, note=_warn)
            if source is None and part.dataset is None:
                raise InputError(f"{part.name}: {part.path} does not exist (looked from {Path.cwd()})")
            if source is None:
                self._take_store(folder, part, sets, missing)
                continue
            loaded = loaded or load()
            if request.score is not None and loaded.takes != PICTURES:
                raise _MissingError(
                    f"{request.view}: it asks more of the model than features, which is for pictures, and "
                    f"the model takes {loaded.takes}"
                )
            folder.mkdir(parents=True, exist_ok=True)
            fill_store(
                loaded,
                source,
                folder / part.name,
                name=str(part.path or part.name),
                weights_file=None if weights is None else str(weights),
                settings=settings,
                progress=partial(self.progress, part.name),
            )
            sets[part.name] = StoreSet(folder / part.name)
        if loaded is None and sets and weights is not None:
            loaded = (
                load()
            )  # its stores say of which weights they are, and only the file says which these are
        if loaded is not None:
            _require_features_of(loaded, sets)
        elif weights is None:
            _require_no_checkpoint(name, folder, sets)
        return self._complete(name, backbone, folder, sets, missing)

    def _take_store(
        self, folder: Path, part: ProtocolSet, sets: dict[str, FeatureSet], missing: dict[str, str]
    ) -> None:
        """Of a set without pictures the store of an earlier run, if there is one."""
        if is_store(folder / part.name):
            sets[part.name] = StoreSet(folder / part.name)
            self.say(f"{part.name}: no pictures here, its store is used")
        else:
            missing[part.name] = self._why(part)

    def _place(self) -> str:
        """The folder of the protocol; one's own are told apart by their paths."""
        paths = [str(part.path.resolve()) for part in self.protocol.sets if part.path is not None]
        if not paths:
            return slug(self.protocol.name)
        return f"{slug(self.protocol.name)}-{hashlib.sha256(chr(0).join(paths).encode()).hexdigest()[:12]}"

    def _complete(
        self,
        name: str,
        backbone: str | None,
        folder: Path,
        sets: Mapping[str, FeatureSet],
        missing: Mapping[str, str],
    ) -> Subject:
        for part in (self.protocol.fit, *self.protocol.known):
            if part.name in missing:
                spectrum = ", full-spectrum" if self.protocol.full_spectrum else ""
                raise _MissingError(
                    f"{name} cannot run on {self.protocol.name}{spectrum}: {part.name} is missing, "
                    f"{missing[part.name]}"
                )
        outliers = {part.name: sets[part.name] for part in self.protocol.ood if part.name in sets}
        if not outliers:
            lines = "; ".join(f"{part}: {why}" for part, why in missing.items())
            raise _MissingError(f"{name} cannot run on {self.protocol.name}: no OOD set is present ({lines})")
        write_about(folder, About(name, self.protocol.name, backbone))
        subject = Subject(
            name,
            read_head(folder),
            sets[FIT],
            sets[TEST],
            outliers,
            backbone,
            self.protocol.name,
            missing,
            folder,
            self.protocol.groups,
        )
        shifted = self.protocol.shifted if self.protocol.full_spectrum else ()
        return with_shifted(subject, {part.name: sets[part.name] for part in shifted}) if shifted else subject

    def _why(self, part: ProtocolSet) -> str:
        found = part.locate(self.root, verify=True)  # as pictures are opened: the reason is the same
        if found is None:
            return f"{part.path} does not exist"
        return f"{found.detail}. How to get it: {found.dataset.obtain}"


class _MissingError(InputError):
    """Neither pictures nor stores of a set that is needed."""


def backbone_of(spec: str) -> str | None:
    """The paper's name for a model, where it has one."""
    wanted = canonical_spec(spec)
    return next((card.backbone for card in list_models() if canonical_spec(card.spec) == wanted), None)


def _warn(text: str) -> None:
    warnings.warn(text, TheodoliteWarning, stacklevel=2)


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


def _require_no_checkpoint(name: str, folder: Path, sets: Mapping[str, FeatureSet]) -> None:
    """Without a checkpoint and without pictures, stores are of the model's own weights, or are refused."""
    for part, rows in sets.items():
        file = rows.store.manifest.weights_file if isinstance(rows, StoreSet) else None
        if file is not None:
            raise InputError(
                f"{name}, {part}: its pictures are not here, and its store has features of the checkpoint "
                f"{file}, which is not asked for: --weights {name}={file}, or its folder as "
                f"--model features:{folder}"
            )
