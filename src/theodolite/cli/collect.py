"""`theodolite collect`: what a part of the data teaches, in one file that `theodolite fit` merges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..core.errors import InputError
from . import _options as options
from ._console import say, screen
from .fit import require_place, say_note

if TYPE_CHECKING:
    from ..guard import Part


def collect(
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            help="In-distribution images, a feature store, or features (.npy, .npz, .parquet, .safetensors); "
            "more than once for several.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The part: part-3.safetensors.")],
    part: Annotated[
        str | None, typer.Option("--part", help="3/16: the third of sixteen parts, for one of sixteen jobs.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="What model; a feature store knows its own.")
    ] = None,
    weights: options.Weights = None,
    layer: options.Layer = None,
    kind: options.Kind = None,
    holds: options.From = None,
    head: options.HeadFile = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            "--detector", help="The score: `theodolite detectors`; options as in knn?k=50. More than once."
        ),
    ] = None,
    first_look: Annotated[
        str | None,
        typer.Option(
            "--first-look",
            help="What the first round gave, for a shaping that learns: 'look-*.safetensors', quoted.",
        ),
    ] = None,
    calibration_share: Annotated[
        float,
        typer.Option("--calibration-share", help="Share held out to calibrate on; 0 for data of its own."),
    ] = 0.2,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = None,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
    repair: options.Repair = False,
    verify: options.Verify = False,
    accept_code_change: options.AcceptCodeChange = False,
) -> None:
    """Collect what detectors need from a part of the data; `fit part-*.safetensors` makes a guard of all."""
    from ..features import ExtractionSettings, Running
    from ..guard import collect as collected
    from ..guard.choice import choose_detector
    from ..guard.shown import note_on
    from ._progress import extracting

    console = screen()
    require_place(output)
    chosen = [choose_detector(one) for one in detector] if detector else [choose_detector(None)]
    with extracting(console) as progress:
        found = collected(
            data,
            model,
            detectors=chosen,
            weights=weights,
            calibration_share=calibration_share,
            first_look=[] if first_look is None else _matching(first_look),
            settings=ExtractionSettings(
                kind=options.kind_of(kind, holds),
                part=part,
                limit=limit,
                layer=layer,
                repair=repair,
                verify=verify,
                running=Running(device, workers, autocast, channels_last, skip_unreadable, batch_size),
            ),
            progress=progress,
            head=head,
            accept_code_change=accept_code_change,
        )
    found.save(output)
    known = found.source.provenance or found.source.origin
    for one in found.detectors:
        say_note(note_on(one, None if known is None else known.model_score), console)
    _say_collected(found, output, console)


def _matching(pattern: str) -> list[Path]:
    """The files that a pattern names, in order."""
    place = Path(pattern).expanduser()
    try:
        found = [place] if place.is_file() else sorted(place.parent.glob(place.name)) if place.name else []
    except (OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"--first-look {pattern!r:.200} cannot be looked up: {error}") from error
    if not found:
        raise InputError(f"--first-look {pattern!r:.200}: no file matches it (looked from {Path.cwd()})")
    return found


def _say_collected(part: Part, output: Path, console: Console) -> None:
    size = f"{output.stat().st_size:,} bytes in {output}"
    if part.first_look:
        say(console, f"first look at {part.fitted_on:,} samples: {size}")
        say_note(
            "this part holds what the shaping learns from, and nothing else. When all parts "
            "have had their first look, collect again with --first-look and the names of its files, quoted",
            console,
        )
        return
    titles = ", ".join(dict.fromkeys(one.record.title for one in part.detectors))
    held = f", {len(part.held_out):,} held out to calibrate on" if part.share else ""
    say(console, f"{titles}: {part.fitted_on:,} samples to fit on{held}: {size}")
