"""`theodolite fit`: from a model and in-distribution data to a guard in one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..errors import InputError
from . import options

if TYPE_CHECKING:
    from ..detectors import Detector
    from ..features.manifest import Recipe
    from ..features.store import FeatureStore

# Rows whose labels are compared with the head's answers.
_LOOKED_AT = 10_000
# Below this share of agreement head and labels most likely count different classes.
_AGREES = 0.2


def fit(
    data: Annotated[str, typer.Option("--data", help="In-distribution images, or a feature store.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The guard: guard.safetensors.")],
    model: Annotated[
        str | None, typer.Option("--model", help="What model; a feature store knows its own.")
    ] = None,
    weights: options.Weights = None,
    layer: options.Layer = None,
    kind: options.Kind = None,
    detector: Annotated[
        str | None,
        typer.Option("--detector", help="The score: `theodolite detectors`."),
    ] = None,
    shaping: Annotated[str | None, typer.Option("--shaping", help="Shape features first: react:80.")] = None,
    calibration_data: Annotated[
        str | None,
        typer.Option("--calibration-data", help="Held-out ID images or store, instead of a share."),
    ] = None,
    calibration_share: Annotated[
        float, typer.Option("--calibration-share", help="Share of the data held out to calibrate on.")
    ] = 0.2,
    false_alarm_rate: options.FalseAlarmRate = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = False,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
) -> None:
    """Fit a detector on in-distribution data, calibrate it on held-out data, and save the guard."""
    from ..calibration import check_rate
    from ..evaluation import head_accuracy
    from ..features.extract import Running
    from ..guard import FALSE_ALARM_RATE, Guard

    console = Console()
    if false_alarm_rate is not None:
        check_rate(false_alarm_rate)
    chosen = make_detector(detector, shaping, console)
    running = Running(device, workers, autocast, channels_last, skip_unreadable)
    how = {"layer": layer, "batch_size": batch_size, "limit": limit, "running": running}
    store = features_of(data, model, weights, kind, console, how)
    require_labels(store)
    held_out = None
    if calibration_data is not None:
        held_out = features_of(calibration_data, model, weights, kind, console, how)
        require_same_model(store, held_out)
    guard = Guard.fit(
        store,
        head=store.head,
        detector=chosen,
        calibration=held_out,
        calibration_share=calibration_share,
        class_names=store.class_names,
        provenance=provenance_of(store, weights),
        false_alarm_rate=FALSE_ALARM_RATE if false_alarm_rate is None else false_alarm_rate,
    )
    guard.save(output)
    right = head_accuracy(store.head, store, rows=_LOOKED_AT)
    fitted_on = len(store) if held_out is not None else len(store) - len(guard.calibration)
    console.print(
        f"{chosen.record.title} fitted on {fitted_on:,} samples, calibrated on {len(guard.calibration):,}: "
        f"score below {guard.calibration.threshold(guard.false_alarm_rate):.4g} is OOD "
        f"(at most {100 * guard.false_alarm_rate:g} % false alarms). Guard in {output}",
        highlight=False,
        soft_wrap=True,
    )
    if right is not None:
        hint = (
            ""
            if right > _AGREES
            else " (a folder's labels number its own sub-folders, not the model's classes)"
        )
        console.print(f"the classifier agrees with {100 * right:.1f} % of the labels{hint}", highlight=False)


def make_detector(name: str | None, shaping: str | None, console: Console) -> Detector:
    """A detector by name, behind a shaping where one is asked for."""
    from ..detectors import RECOMMENDED, Detector, create

    name = name or RECOMMENDED
    detector = create(name) if shaping is None else create(name, shaping=shaping)
    if type(detector).prepare is not Detector.prepare:
        console.print(
            f"note: a guard works from the features of unchanged inputs; the nudge {detector.record.title} "
            f"gives them is left out, when calibrating as when scoring",
            highlight=False,
            soft_wrap=True,
        )
    return detector


def features_of(
    data: str,
    model: str | None,
    weights: Path | None,
    kind: str | None,
    console: Console,
    how: dict[str, Any],
) -> FeatureStore:
    """The store at a path, or the features of the images there, kept in the cache under their key."""
    from ..features.store import FeatureStore, is_store
    from ..models.base import spelled

    if is_store(data):
        store = FeatureStore(data)
        unused = {"--layer": how["layer"], "--limit": how["limit"], "--kind": kind}
        for option, value in unused.items():
            if value is not None:
                raise InputError(f"{option} is for images, but {data} is a feature store: leave it out")
        if model is not None and not _names(spelled(model), store.manifest.recipe.model):
            raise InputError(
                f"{data} holds features of {store.manifest.recipe.model}, not of {model}: "
                f"leave out --model, or extract again"
            )
        return store
    if model is None:
        raise InputError(f"{data} is not a feature store: --model says which model shall look at its images")
    return _cached(data, model, weights, kind, console, how)


def _names(asked: str, stored: str) -> bool:
    """Whether a spec names a stored model: a source may have added the name of its default weights."""
    (name, _, options), (wanted, _, given) = stored.partition("?"), asked.partition("?")
    return options == given and (name == wanted or name.startswith(wanted + "/"))


def _cached(
    data: str, model: str, weights: Path | None, kind: str | None, console: Console, how: dict[str, Any]
) -> FeatureStore:
    from .extract import extract_to

    def place(recipe: Recipe) -> Path:
        return cache_folder() / recipe.key[:20]

    store = extract_to(model, data, place, console, kind=kind, weights=weights, **how)
    console.print(f"features of {data} are kept in {store.path}", highlight=False, soft_wrap=True)
    return store


def cache_folder() -> Path:
    """Where features extracted on the way to a guard are kept."""
    named = os.environ.get("THEODOLITE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "theodolite"


def provenance_of(store: FeatureStore, weights: Path | None) -> Any:
    from ..guard import Provenance

    recipe = store.manifest.recipe
    weights_file = store.manifest.weights_file if weights is None else str(weights.resolve())
    return Provenance(recipe.model, recipe.weights, recipe.preprocess, recipe.layer, weights_file)


def require_same_model(one: FeatureStore, other: FeatureStore) -> None:
    a, b = one.manifest.recipe, other.manifest.recipe
    if (a.weights, a.layer, a.preprocess) != (b.weights, b.layer, b.preprocess):
        raise InputError(
            f"the calibration features are of another model or preprocessing: {a.model} and {b.model}. "
            f"Extract both with the same one"
        )


def require_labels(store: FeatureStore) -> None:
    """Labels, where there are any, must be classes of the model."""
    if not store.labelled:
        return
    highest = max((int(labels.max()) for _, labels, _ in store if labels is not None), default=0)
    if highest >= store.manifest.classes:
        raise InputError(
            f"{store.manifest.source} has labels up to {highest}, but the model has {store.manifest.classes} "
            f"classes: labels must lie in 0..{store.manifest.classes - 1}. Remedy: use the classes the model "
            f"was trained on, or leave the labels out (--kind flat for a folder)"
        )
