"""`theodolite score`: verdicts on images or on stored features, on screen and in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InputError
from . import _options as options
from ._console import screen

if TYPE_CHECKING:
    from .summary import Summary

_SHOWN = 20
_NOT_ALL_TRUSTED = 3


def score(
    guard: options.GuardName,
    paths: options.Paths,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write all rows: .csv, .jsonl or .parquet; - is standard output."
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="csv, jsonl or parquet (default: by the suffix; csv for -)."),
    ] = None,
    model: options.OwnModels = None,
    weights: options.Weights = None,
    kind: options.Kind = None,
    holds: options.From = None,
    false_alarm_rate: options.FalseAlarmRate = None,
    fdr: Annotated[
        float | None,
        typer.Option(
            "--fdr",
            help="Flag all samples together: of those flagged, on average at most this share is ID.",
        ),
    ] = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = None,
    compiled: options.Compile = False,
    engine: options.Engine = None,
    concurrency: options.Concurrency = None,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    timings: options.Timings = False,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
    accept_code_change: options.AcceptCodeChange = False,
    flag_unscorable: options.FlagUnscorable = False,
    fail_on_ood: Annotated[
        bool,
        typer.Option(
            "--fail-on-ood", help="Exit code 3 if something is flagged as OOD, or is left without verdict."
        ),
    ] = False,
) -> None:
    """Say for every image what the classifier sees, and whether to trust it."""
    from ..features import Running
    from ..features.behind import behind
    from ..guard import Guard
    from ..guard.any_guard import load_judge
    from ..guard.provenance import only_model
    from ..guard.verdicts import FLAG, RAISE
    from ..report.ray_scores import Scoring, score_on_ray
    from ..report.score_files import STANDARD_OUTPUT, open_sink
    from ._progress import progress_bar
    from .summary import Summary
    from .timings import say_run, started

    if file_format is not None and output is None:
        raise InputError(f"--format {file_format} is of the file to be written: add --output FILE, or -o -")
    running = Running(
        device,
        workers,
        autocast,
        channels_last,
        skip_unreadable,
        batch_size,
        compiled,
        log := started(),
        engine=options.engine_of(engine, concurrency, cpus, gpus),
    )
    place = None if running.engine is None else _place_of_ray(output, file_format, fdr)
    piped = str(output) == STANDARD_OUTPUT
    console = screen(stderr=piped)
    judge = load_judge(guard, model=model, weights=weights, accept_code_change=accept_code_change)
    log.lap("guard")
    rate = judge.false_alarm_rate if false_alarm_rate is None else false_alarm_rate
    summary = Summary(judge.title, rate, _SHOWN, fdr)
    if place is not None:
        if not isinstance(judge, Guard):
            raise InputError("a guard over several models runs in this process: leave --engine out")
        scoring = Scoring(
            options.kind_of(kind, holds), limit, false_alarm_rate, FLAG if flag_unscorable else RAISE
        )
        with progress_bar(console, "scoring") as show:
            tally = score_on_ray(
                judge,
                paths,
                place,
                model=only_model(model),
                weights=weights,
                scoring=scoring,
                running=running,
                progress=show,
            )
        summary.merge(tally)
        summary.print(console, place)
        _exit(summary, fail_on_ood)
        return
    with (
        open_sink(output, kind=file_format) as sink,
        progress_bar(console, "scoring") as show,
        behind(sink.write) as write,
    ):
        for rows in judge.score_paths(
            paths,
            kind=options.kind_of(kind, holds),
            limit=limit,
            model=model,
            weights=weights,
            false_alarm_rate=false_alarm_rate,
            fdr=fdr,
            unscorable=FLAG if flag_unscorable else RAISE,
            running=running,
            progress=show,
        ):
            write(rows)
            summary.add(rows)
    say_run(console, log, timings=timings)
    summary.print(console, None if piped else output)
    _exit(summary, fail_on_ood)


def _exit(summary: Summary, fail_on_ood: bool) -> None:
    if fail_on_ood and not summary.all_trusted:
        raise typer.Exit(_NOT_ALL_TRUSTED)


def _place_of_ray(output: Path | None, file_format: str | None, fdr: float | None) -> Path:
    """The folder that workers write into; refused what a cluster does not do."""
    if output is None or file_format not in (None, "parquet"):
        raise InputError("on Ray scores are written by the workers, as Parquet: add -o NAME.parquet")
    if fdr is not None:
        raise InputError(
            "--fdr flags all samples together, for which one process must hold them: leave it out, or score "
            "without --engine ray"
        )
    return output
