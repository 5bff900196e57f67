"""`theodolite monitor`: whether a stream of scores is still what the guard was calibrated on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InputError
from ._console import screen

if TYPE_CHECKING:
    from .watching import Watch

_ALARMED = 3
_FIGURES = (".png", ".svg", ".pdf")


def monitor(
    guard: Annotated[
        str, typer.Argument(help="The guard that gave the scores: a file, or a ready-made one.")
    ],
    streams: Annotated[
        list[str],
        typer.Argument(help="What `theodolite score -o` wrote, in order; - is standard input."),
    ],
    alarm: Annotated[
        float | None,
        typer.Option(
            "--alarm",
            help="Probability of ever a false alarm (default 0.01); with shiryaev-roberts, one in 1/ALARM "
            "samples (default 1e-5).",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="martingale (default), or shiryaev-roberts for streams without an end."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Go on from this file if it is there, and write it.")
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Begin the evidence of the state anew, the alarm being seen to.")
    ] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the random numbers (default 0).")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw the evidence over time: .png, .svg or .pdf.")
    ] = None,
    fail_on_alarm: Annotated[
        bool, typer.Option("--fail-on-alarm", help="Exit code 3 if there is an alarm.")
    ] = False,
) -> None:
    """Watch a stream of scores for drift, with a bound on false alarms however long it is."""
    from ..guard import Monitor
    from ..guard.storage import read_guard
    from .watching import Watch

    if output is not None and output.suffix.lower() not in _FIGURES:
        raise InputError(f"{output}: figures are written as {', '.join(_FIGURES)}, not {output.suffix!r}")
    parts = read_guard(guard)
    watched = Monitor.resumed(parts.calibration, state, alarm=alarm, kind=kind, seed=seed)
    if reset:
        watched.reset()
    watch = Watch(watched, parts.calibration, parts.false_alarm_rate, state, screen())
    for stream in streams:
        watch.follow(stream)
    if output is not None:
        _draw(watch, output)
    if state is not None:
        watched.save(state)
    watch.print(output)
    if fail_on_alarm and watched.alarmed_at is not None:
        raise typer.Exit(_ALARMED)


def _draw(watch: Watch, path: Path) -> None:
    from ..report.figures import evidence_over_time, save

    monitor = watch.monitor
    figure = evidence_over_time(
        watch.trace,
        threshold=monitor.threshold,
        alarmed_at=monitor.alarmed_at,
        title=f"{monitor.seen:,} samples, {monitor.kind}, alarm {monitor.alarm:g}",
    )
    save(figure, path.with_name(path.name.removesuffix(path.suffix)), suffixes=(path.suffix,))
