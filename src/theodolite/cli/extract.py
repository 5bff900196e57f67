"""`theodolite extract`: features of a data set, once, onto the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as options
from ._console import say, screen


def extract(
    data: Annotated[
        str,
        typer.Option(
            "--data", help="Images: folder, list, .npy/.npz, idx, …; texts: .jsonl, .csv, .txt; or features."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the feature store.")],
    model: Annotated[
        str | None, typer.Option("--model", help="What model: timm:…, torchvision:…, hf-text:…, python:…, …")
    ] = None,
    weights: options.Weights = None,
    layer: options.Layers = None,
    no_head: Annotated[
        bool, typer.Option("--no-head", help="The model is an encoder: its output is the feature.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --no-head: also an output that looks like logits.")
    ] = False,
    kind: options.Kind = None,
    holds: options.From = None,
    head: options.HeadFile = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32, or float16 for half the disk.")] = "float32",
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
    part: Annotated[
        str | None, typer.Option("--part", help="2/8: the second of eight parts, for one of eight machines.")
    ] = None,
    repair: options.Repair = False,
    verify: options.Verify = False,
) -> None:
    """Extract features into a store on disk; an interrupted run goes on where it stopped."""
    from .. import features
    from ._progress import extracting
    from .timings import say_run, started

    log = started()
    console = screen()
    settings = features.ExtractionSettings(
        kind=options.kind_of(kind, holds),
        part=part,
        limit=limit,
        layer=options.layers_of(layer),
        headless=no_head,
        force=force,
        dtype=dtype,
        repair=repair,
        verify=verify,
        running=features.Running(
            device,
            workers,
            autocast,
            channels_last,
            skip_unreadable,
            batch_size,
            compiled,
            log,
            engine=options.engine_of(engine, concurrency, cpus, gpus),
        ),
    )
    with extracting(console) as progress:
        store = features.extract(
            data, model, weights=weights, head=head, output=output, settings=settings, progress=progress
        )
    say_run(console, log, timings=timings)
    skipped = f", {len(store.skipped):,} unreadable left out" if store.skipped else ""
    skipped += f", {store.cut:,} cut off at the model's limit" if store.cut else ""
    dtype = store.manifest.recipe.dtype
    taken = "" if store.head is not None else "the output of the model, which has no head: "
    say(console, f"{taken}{len(store):,} × {store.width} features ({dtype}{skipped}) in {output}")
