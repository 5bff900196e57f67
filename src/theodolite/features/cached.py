"""From a path and a model to a feature store: opened as it is, or extracted and kept.

    store = extract("pictures/train", "timm:resnet18")

Without an output folder the features are kept in the cache, in a folder named by their key: the same call
finds them there, whatever else was extracted in between.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..core.addresses import require_named
from ..core.errors import InputError
from ..core.places import cache_folder
from ..data import ImageSource, open_source
from ..data.part import part_of
from ..models import load_model
from ..models.registry import names_model
from ..reference.head import Head
from .engine import require_here
from .extraction import fill_store
from .folders import HOLDS_PICTURES, holds_features
from .head_files import read_head
from .importing import IMPORTED, import_features
from .manifest import Recipe
from .settings import ExtractionProgress, ExtractionSettings, Watch
from .store import FeatureStore, damaged_error, is_store

# Letters of the key that name a folder of the cache.
_KEY = 20


def extract(
    data: str | Path,
    model: str | None = None,
    *,
    weights: str | Path | None = None,
    head: Head | str | Path | None = None,
    output: str | Path | None = None,
    settings: ExtractionSettings | None = None,
    progress: Watch = lambda _: None,
) -> FeatureStore:
    """The features of pictures under a model, in a store at ``output`` (None: in the cache).

    What is there already is not extracted again, and what was interrupted goes on. ``weights`` is a
    checkpoint of your own in place of the model's. Features in a file (``.npy``, ``.npz``, ``.parquet``,
    ``.safetensors``) go into a store as they are, with their ``head``.

    >>> rows = np.random.default_rng(0).normal(size=(6, 2))
    >>> np.savez("train.npz", features=rows, labels=np.arange(6) % 2)
    >>> store = th.extract("train.npz", head=th.Head(np.eye(2)), output="features/train")
    >>> len(store), store.head.classes  # of pictures: th.extract("pictures/train", "timm:resnet18")
    (6, 2)
    """
    require_named(data)
    settings = settings or ExtractionSettings()
    folder = _cached_folder if output is None else output
    if holds_features(data, settings.kind):
        require_here(settings.running.engine, f"to import {data}, which holds features,")
        known = _head_of(data, model, weights, head)
        state = ExtractionProgress(IMPORTED, str(data))
        return import_features(
            data,
            known,
            folder,
            settings=settings,
            progress=lambda done, total: progress(replace(state, done=done, total=total)),
        )
    if model is None or head is not None:
        raise InputError(
            f"{data} holds images: name the model that shall look at them (--model), which has a head of its "
            f"own (leave --head out)"
        )
    source = _opened(data, settings)  # before the model: a wrong path is known at once
    loaded = load_model(model, weights=weights)
    state = ExtractionProgress(loaded.spec, str(data))
    progress(state)
    store = fill_store(
        loaded,
        source,
        folder,
        name=str(data),
        weights_file=None if weights is None else str(Path(weights).resolve()),
        settings=settings,
        progress=lambda done, total: progress(replace(state, done=done, total=total)),
    )
    if output is None:
        samples = store.manifest.recipe.samples
        progress(replace(state, done=samples, total=samples, kept=store.path))
    return store


def _head_of(
    data: str | Path, model: str | None, weights: str | Path | None, head: Head | str | Path | None
) -> Head:
    """The head that features in a file come with."""
    if model is not None or weights is not None:
        raise InputError(
            f"{data} holds features, which no model is to look at: leave --model and --weights out, or say "
            f"that it holds pictures (--from pictures)"
        )
    if head is None:
        raise InputError(
            f"{data} holds features without their head, which a feature store needs: --head head.safetensors "
            f"(`theodolite fit` takes the file as it is, also without a head)"
        )
    return head if isinstance(head, Head) else read_head(head)


def open_features(
    data: str | Path,
    model: str | None = None,
    *,
    weights: str | Path | None = None,
    settings: ExtractionSettings | None = None,
    progress: Watch = lambda _: None,
) -> FeatureStore:
    """The feature store at a path, or the features of the pictures there, kept in the cache.

    A store knows its model; one named as well must be the same.
    """
    settings = settings or ExtractionSettings()
    if not is_store(data):
        if model is None:
            raise InputError(
                f"{data} is not a feature store: --model says which model shall look at its images"
            )
        return extract(data, model, weights=weights, settings=settings, progress=progress)
    store = FeatureStore(data)
    _require_for_store(store, data, model, settings)
    if settings.verify and (damaged := store.damaged()):
        raise damaged_error(store.path, damaged)
    return store


def require_data(data: str | Path, settings: ExtractionSettings | None = None) -> None:
    """Refuse a path that is neither a store nor data that can be opened, before any work is done."""
    if not is_store(data):
        _opened(data, settings or ExtractionSettings())


def _opened(data: str | Path, settings: ExtractionSettings) -> ImageSource:
    source = open_source(data, kind=None if settings.kind == HOLDS_PICTURES else settings.kind)
    return source if settings.part is None else part_of(source, settings.part)


def _cached_folder(recipe: Recipe) -> Path:
    return cache_folder() / recipe.key[:_KEY]


def _require_for_store(
    store: FeatureStore, data: str | Path, model: str | None, settings: ExtractionSettings
) -> None:
    """Refuse what can only be asked of pictures, and another model than the store's."""
    unused = {
        "--layer": settings.layer,
        "--limit": settings.limit,
        "--kind": settings.kind,
        "--part": settings.part,
        "--repair": settings.repair or None,
    }
    for option, value in unused.items():
        if value is not None:
            raise InputError(f"{option} is for images, but {data} is a feature store: leave it out")
    made_by = store.manifest.recipe.model
    if model is not None and not names_model(model, made_by):
        raise InputError(
            f"{data} holds features of {made_by}, not of {model}: leave out --model, or extract again"
        )
