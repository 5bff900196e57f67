"""`theodolite fit`: from a model and in-distribution data to a guard in one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..core.errors import InputError
from . import _options as options
from ._calibration import interval_text, threshold_text
from ._console import say, screen

if TYPE_CHECKING:
    from ..guard import FittedGuard


def fit(
    output: Annotated[Path, typer.Option("--output", "-o", help="The guard: guard.safetensors.")],
    parts: Annotated[
        list[Path] | None,
        typer.Argument(help="Parts of `theodolite collect`, instead of data: part-*.safetensors."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="In-distribution images or texts, a feature store, or features (.npy, .npz, .parquet, …); "
            "more than once for parts.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="What model; a feature store knows its own.")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option("--classes", help="Class names for CLIP or SigLIP: a file with one a line, or commas."),
    ] = None,
    templates: Annotated[
        str | None,
        typer.Option("--templates", help="Prompts to average over: a file with one a line, {class} in each."),
    ] = None,
    negatives: Annotated[
        str | None,
        typer.Option("--negatives", help="Words that are no classes, one a line, for NegLabel."),
    ] = None,
    weights: options.Weights = None,
    layer: options.Layers = None,
    kind: options.Kind = None,
    holds: options.From = None,
    head: options.HeadFile = None,
    detector: Annotated[
        str | None,
        typer.Option("--detector", help="The score: `theodolite detectors`; options as in knn?k=50."),
    ] = None,
    shaping: Annotated[str | None, typer.Option("--shaping", help="Shape features first: react:80.")] = None,
    calibration_data: Annotated[
        str | None,
        typer.Option("--calibration-data", help="Held-out ID images or features, instead of a share."),
    ] = None,
    calibration_share: Annotated[
        float | None,
        typer.Option("--calibration-share", help="Share of the data held out to calibrate on (default 0.2)."),
    ] = None,
    per_class: Annotated[
        bool,
        typer.Option("--per-class", help="A threshold for every class with enough calibration data."),
    ] = False,
    class_minimum: Annotated[
        int | None,
        typer.Option(
            "--class-minimum",
            min=1,
            help="Calibration samples enough for --per-class (default 100).",
        ),
    ] = None,
    class_names: Annotated[
        str | None, typer.Option("--class-names", help="A file with a name a line, or names with commas.")
    ] = None,
    false_alarm_rate: options.FalseAlarmRate = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = None,
    engine: options.Engine = None,
    concurrency: options.Concurrency = None,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
    repair: options.Repair = False,
    verify: options.Verify = False,
    accept_code_change: options.AcceptCodeChange = False,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Fit although some of the parts are missing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Fit although the classifier hardly agrees with the labels."),
    ] = False,
) -> None:
    """Fit a detector on in-distribution data, calibrate it on held-out data, and save the guard.

    The data is named with --data, or was collected in parts, which are named as they are.
    """
    from ..features import ExtractionSettings, Running
    from ..guard import fit_guard, fit_parts
    from ..guard.calibration import FALSE_ALARM_RATE
    from ..guard.guard import CALIBRATION_SHARE
    from ..guard.negatives import choose_for_words
    from ..models.class_names import read_names
    from ._progress import extracting

    console = screen()
    require_place(output)
    model = _zero_shot(model, classes, templates)
    if class_minimum is not None and not per_class:
        raise InputError("--class-minimum is of --per-class: add it, or leave both out")
    running = Running(
        device,
        workers,
        autocast,
        channels_last,
        skip_unreadable,
        batch_size,
        engine=options.engine_of(engine, concurrency, cpus, gpus),
    )
    settings = ExtractionSettings(
        kind=options.kind_of(kind, holds),
        limit=limit,
        layer=options.layers_of(layer),
        repair=repair,
        verify=verify,
        running=running,
    )
    names = None if class_names is None else read_names(class_names)
    rate = FALSE_ALARM_RATE if false_alarm_rate is None else false_alarm_rate
    by_class = class_minimum if per_class and class_minimum is not None else per_class
    if not parts and not data:
        raise InputError("there is nothing to fit on: --data names in-distribution data, or name its parts")
    if parts:
        decided: dict[str, object] = {
            "--data": data,
            "--head": head,
            "--calibration-share": calibration_share,
        }
        if negatives is not None:
            raise InputError(
                "--negatives is for data, but parts are given: embed the words (`theodolite embed`), and "
                "name the file, --detector 'neglabel?negatives=FILE'"
            )
        if calibration_data is None:
            decided |= {"--model": model, "--weights": weights, "--layer": layer, "--limit": limit}
            decided |= {"--kind": kind, "--from": holds}
        _require_only_parts(decided)
    elif incomplete:
        raise InputError("--incomplete is for parts of `theodolite collect`: leave it out")
    as_collected = parts and detector is None and shaping is None
    chosen = None if as_collected else choose_for_words(detector, negatives, shaping)
    with extracting(console) as progress:
        if parts:
            fitted = fit_parts(
                parts,
                detector=chosen,
                calibration=calibration_data,
                model=model,
                class_names=names,
                false_alarm_rate=rate,
                weights=weights,
                settings=settings,
                progress=progress,
                per_class=by_class,
                incomplete=incomplete,
                force=force,
                accept_code_change=accept_code_change,
            )
        else:
            fitted = fit_guard(
                data or [],
                model,
                weights=weights,
                calibration=calibration_data,
                calibration_share=CALIBRATION_SHARE if calibration_share is None else calibration_share,
                detector=chosen,
                class_names=names,
                false_alarm_rate=rate,
                settings=settings,
                progress=progress,
                head=head,
                negatives=negatives,
                per_class=by_class,
                force=force,
                accept_code_change=accept_code_change,
            )
    fitted.guard.save(output)
    say_fitted(fitted, output, console)


def _zero_shot(model: str | None, classes: str | None, templates: str | None) -> str | None:
    """The model with the names and the prompts that make a classifier of it.

    Files are named in full: the guard finds its model's from wherever it is used.
    """
    from ..models.class_names import file_named
    from ..models.texts import spec_with

    def in_full(value: str | None) -> str | None:
        file = None if value is None else file_named(value)
        return value if file is None else str(file.resolve())

    if model is not None:
        return spec_with(model, classes=in_full(classes), templates=in_full(templates))
    if classes is not None or templates is not None:
        option = "--classes" if classes is not None else "--templates"
        raise InputError(f"{option} is for a model of pictures and texts: name it with --model openclip:…")
    return None


def _require_only_parts(decided: Mapping[str, object]) -> None:
    """Refuse options that say what the parts have decided."""
    for option, value in decided.items():
        if value is not None:
            raise InputError(f"{option} is for data, but parts are given: `theodolite collect` takes it")


def say_fitted(fitted: FittedGuard, output: Path, console: Console) -> None:
    """The guard in a paragraph: what it was fitted on, what it promises, what to look at."""
    from ..detectors import KNN

    guard, rate = fitted.guard, fitted.guard.false_alarm_rate
    say(
        console,
        f"{guard.title} fitted on {fitted.fitted_on:,} samples, calibrated on "
        f"{len(guard.calibration):,}: score below {threshold_text(guard.calibration, rate)} is OOD "
        f"(at most {100 * rate:g} % false alarms on average; {interval_text(guard.calibration, rate)}). "
        f"Guard in {output}",
    )
    if fitted.agreement is not None:
        say(console, f"the classifier agrees with {100 * fitted.agreement:.1f} % of the labels")
    if isinstance(guard.detector, KNN) and guard.detector.approximation is not None:
        say(console, f"its search is {guard.detector.approximation}")
    for note in fitted.notes:
        say_note(note, console)


def say_note(note: str | None, console: Console) -> None:
    if note is not None:
        say(console, note, "yellow", title="note: ")


def require_place(output: Path) -> None:
    """The folder of a file to be written must be there before the work is done."""
    if not output.parent.is_dir():
        raise InputError(f"the folder {output.parent} does not exist: create it first")
