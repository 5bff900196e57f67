"""`theodolite fit`: from a model and in-distribution data to a guard in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..core.errors import InputError
from . import _options as options

if TYPE_CHECKING:
    from ..detectors import Detector

# Rows whose labels are compared with the head's answers.
_LOOKED_AT = 10_000
# Below this share of agreement head and labels most likely count different classes.
_AGREES = 0.2
# From this share on it may have been trained on them.
_LEARNT = 0.99


def fit(
    data: Annotated[
        list[str],
        typer.Option("--data", help="In-distribution images, or a feature store; more than once for parts."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The guard: guard.safetensors.")],
    model: Annotated[
        str | None, typer.Option("--model", help="What model; a feature store knows its own.")
    ] = None,
    weights: options.Weights = None,
    layer: options.Layer = None,
    kind: options.Kind = None,
    detector: Annotated[
        str | None,
        typer.Option("--detector", help="The score: `theodolite detectors`; options as in knn?k=50."),
    ] = None,
    shaping: Annotated[str | None, typer.Option("--shaping", help="Shape features first: react:80.")] = None,
    calibration_data: Annotated[
        str | None,
        typer.Option("--calibration-data", help="Held-out ID images or store, instead of a share."),
    ] = None,
    calibration_share: Annotated[
        float, typer.Option("--calibration-share", help="Share of the data held out to calibrate on.")
    ] = 0.2,
    class_names: Annotated[
        str | None, typer.Option("--class-names", help="A file with a name a line, or names with commas.")
    ] = None,
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
    from ..data import open_source
    from ..evaluation.evaluation import head_accuracy
    from ..features.extract import Running
    from ..features.store import StoreParts, is_store
    from ..guard.calibration import check_rate
    from ..guard.guard import FALSE_ALARM_RATE, Guard
    from ..guard.holdout import check_share
    from ..models.names import read_names
    from .stores import features_of, provenance_of, require_labels, require_same_classes, require_same_model

    console = Console()
    check_rate(FALSE_ALARM_RATE if false_alarm_rate is None else false_alarm_rate)
    check_share(calibration_share)
    require_place(output)
    names = None if class_names is None else read_names(class_names)
    chosen = make_detector(detector, shaping, console)
    running = Running(device, workers, autocast, channels_last, skip_unreadable)
    how = {"layer": layer, "batch_size": batch_size, "limit": limit, "running": running}
    paths = [*data, *([] if calibration_data is None else [calibration_data])]
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise InputError(
            "the same data is named twice: parts to fit on, and data to calibrate on, must differ"
        )
    for path in paths:
        if not is_store(path):
            open_source(path, kind=kind)  # a wrong path is known at once
    parts = [features_of(path, model, weights, kind, console, how) for path in data]
    for part in parts:
        require_same_model(parts[0], part)
        require_same_classes(parts[0], part)
        require_labels(part)
    store = parts[0] if len(parts) == 1 else StoreParts(parts)
    held_out = None
    if calibration_data is not None:
        held_out = features_of(calibration_data, model, weights, kind, console, how)
        require_same_model(parts[0], held_out)
    guard = Guard.fit(
        store,
        head=store.head,
        detector=chosen,
        calibration=held_out,
        calibration_share=calibration_share,
        class_names=store.class_names if names is None else names,
        provenance=provenance_of(parts[0], weights),
        false_alarm_rate=FALSE_ALARM_RATE if false_alarm_rate is None else false_alarm_rate,
    )
    guard.save(output)
    fitted_on = len(store) if held_out is not None else len(store) - len(guard.calibration)
    low, high = guard.calibration.rate_interval(guard.false_alarm_rate)
    console.print(
        f"{chosen.record.title} fitted on {fitted_on:,} samples, calibrated on {len(guard.calibration):,}: "
        f"score below {guard.calibration.threshold(guard.false_alarm_rate):.4g} is OOD "
        f"(at most {100 * guard.false_alarm_rate:g} % false alarms on average; this guard, with probability "
        f"0.9, {100 * low:.1f} to {100 * high:.1f} %). Guard in {output}",
        highlight=False,
        soft_wrap=True,
    )
    _say_agreement(head_accuracy(store.head, store, rows=_LOOKED_AT), held_out is None, console)


def _say_agreement(right: float | None, own_share: bool, console: Console) -> None:
    """How often the classifier agrees with the labels, and what that may mean."""
    if right is None:
        return
    console.print(f"the classifier agrees with {100 * right:.1f} % of the labels", highlight=False)
    if right <= _AGREES:
        warn(console, "a folder's labels number its own sub-folders, not the model's classes")
    if right >= _LEARNT and own_share:
        warn(
            console,
            "if the classifier was trained on this data, new data scores lower, and more of it is flagged "
            "than promised: then pass data it has not seen as --calibration-data",
        )


def warn(console: Console, text: str) -> None:
    console.print(f"[yellow]note:[/yellow] {escape(text)}", highlight=False, soft_wrap=True)


def require_place(output: Path) -> None:
    """The folder of a file to be written must be there before the work is done."""
    if not output.parent.is_dir():
        raise InputError(f"the folder {output.parent} does not exist: create it first")


def make_detector(name: str | None, shaping: str | None, console: Console) -> Detector:
    """A detector by name, behind a shaping where one is asked for."""
    from ..detectors import RECOMMENDED, Detector, create
    from ..detectors.spec import parse_entries

    (entry,) = parse_entries([name or RECOMMENDED], shapings=())
    if shaping is not None and entry.shaping is not None:
        raise InputError(f"{name} names a shaping already: leave --shaping out")
    options = dict(entry.chosen)
    if shaping is not None or entry.shaping is not None:
        options["shaping"] = shaping or entry.shaping
    detector = create(entry.name, **options)
    if type(detector).prepare is not Detector.prepare:
        console.print(
            f"note: a guard works from the features of unchanged inputs; the nudge {detector.record.title} "
            f"gives them is left out, when calibrating as when scoring",
            highlight=False,
            soft_wrap=True,
        )
    return detector
