"""`theodolite extract`: features of a data set, once, onto the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from . import _options as options

if TYPE_CHECKING:
    from ..features.manifest import Recipe
    from ..features.store import FeatureStore


def extract(
    model: Annotated[str, typer.Option("--model", help="What model: timm:…, torchvision:…, python:…, …")],
    data: Annotated[str, typer.Option("--data", help="Images: folder, list file, .npy/.npz, idx, …")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the feature store.")],
    weights: options.Weights = None,
    layer: options.Layer = None,
    kind: options.Kind = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32, or float16 for half the disk.")] = "float32",
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = False,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
    part: Annotated[
        str | None, typer.Option("--part", help="2/8: the second of eight parts, for one of eight machines.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Extract damaged shards again.")] = False,
) -> None:
    """Extract features into a store on disk; an interrupted run goes on where it stopped."""
    from ..features.extract import Running

    console = Console()
    running = Running(device, workers, autocast, channels_last, skip_unreadable)
    store = extract_to(
        model,
        data,
        output,
        console,
        kind=kind,
        part=part,
        weights=weights,
        layer=layer,
        dtype=dtype,
        batch_size=batch_size,
        limit=limit,
        repair=repair,
        running=running,
    )
    skipped = f", {len(store.skipped):,} unreadable left out" if store.skipped else ""
    console.print(
        f"{len(store):,} × {store.width} features ({store.manifest.recipe.dtype}{skipped}) in {output}",
        highlight=False,
        soft_wrap=True,
    )


def extract_to(
    model: str,
    data: str,
    output: Path | Callable[[Recipe], Path],
    console: Console,
    *,
    kind: str | None = None,
    part: str | None = None,
    weights: Path | None = None,
    **how: Any,
) -> FeatureStore:
    """Extract with a progress bar; Ctrl-C says what is kept and how to go on."""
    from ..data import open_source
    from ..data.part import part_of
    from ..features.extract import extract
    from ..models import load_model
    from ._progress import progress_bar

    source = open_source(data, kind=kind)  # before the model: a wrong path is known at once
    source = source if part is None else part_of(source, part)
    loaded = load_model(model, weights=weights)
    weights_file = None if weights is None else str(weights.resolve())
    done = (0, 0)
    with progress_bar(console, f"{loaded.spec} on {Path(data).name}") as show:

        def progress(samples: int, total: int) -> None:
            nonlocal done
            if done == (0, 0) and 0 < samples < total:
                console.print(f"going on from {samples:,} of {total:,} samples", highlight=False)
            done = samples, total
            show(samples, total)

        try:
            return extract(
                loaded, source, output, name=data, weights_file=weights_file, progress=progress, **how
            )
        except KeyboardInterrupt:
            Console(stderr=True).print(
                f"stopped at {done[0]:,} of {done[1]:,} samples: complete shards are kept. "
                f"Run the same command again to go on from there.",
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
