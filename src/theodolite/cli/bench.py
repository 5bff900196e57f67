"""`theodolite bench`: every score on every model and OOD set of a protocol."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InputError
from . import _options as options
from ._console import say, screen
from ._progress import watching

if TYPE_CHECKING:
    from ..benchmarks import Protocol

_REPLICATES = 1000


def bench(
    protocol: Annotated[
        str | None,
        typer.Argument(help="cifar10, imagenet, near-ood, mnist, features:FOLDER; or --id, --fit, --ood."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="What model, or features:FOLDER. May be repeated.")
    ] = None,
    weights: Annotated[
        list[str] | None, typer.Option("--weights", help="MODEL=FILE: a checkpoint for one of the models.")
    ] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option("--detector", help="A score: ora, knn?k=200, energy+react:90. Default: all."),
    ] = None,
    shaping: Annotated[
        list[str] | None, typer.Option("--shaping", help="Every score again behind this: react:80.")
    ] = None,
    ensemble: Annotated[bool, typer.Option("--ensemble", help="Also the sum of the models' scores.")] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Bootstrap confidence intervals.")] = False,
    replicates: Annotated[int, typer.Option(min=1, help="Bootstrap replicates.")] = _REPLICATES,
    seed: options.Seed = 0,
    id_data: Annotated[
        str | None, typer.Option("--id", help="Your own protocol: held-out ID images.")
    ] = None,
    fit_data: Annotated[
        str | None, typer.Option("--fit", help="Your own protocol: ID images to fit on.")
    ] = None,
    ood: Annotated[
        list[str] | None, typer.Option("--ood", help="Your own protocol: NAME=DIR. May be repeated.")
    ] = None,
    kind: options.Kind = None,
    root: options.Root = None,
    cache: options.Cache = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(
        "theodolite-bench"
    ),
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = None,
    engine: options.Engine = None,
    concurrency: options.Concurrency = None,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    skip_unreadable: options.SkipUnreadable = False,
    repair: options.Repair = False,
    verify: options.Verify = False,
) -> None:
    """Measure scores on a protocol, next to the published values; an interrupted run goes on."""
    from ..benchmarks import BenchSettings, Intervals
    from ..benchmarks import bench as run_bench
    from ..core.places import data_root
    from ..features.settings import Running
    from ..report.documents import write_files
    from ..report.page import write_pages
    from ..report.tables import metric_tables, terminal

    console = screen()
    chosen = choose_protocol(protocol, id_data, fit_data, ood or [], kind)
    with watching(console) as watcher:
        result = run_bench(
            chosen,
            model or [],
            detectors=detector or [],
            shapings=shaping or [],
            ensemble=ensemble,
            intervals=Intervals(replicates if intervals else 0, seed=seed),
            settings=BenchSettings(
                weights=parse_weights(weights or []),
                root=root,
                cache=cache,
                running=Running(
                    device,
                    workers,
                    autocast,
                    channels_last,
                    skip_unreadable,
                    batch_size,
                    engine=options.engine_of(engine, concurrency, cpus, gpus),
                ),
                command=command_line(data_root(root)),
                watcher=watcher,
                repair=repair,
                verify=verify,
            ),
        )
    for table in metric_tables(result):
        console.print(terminal(table))
    for line in result.left_out:
        say(console, f"left out: {line}", "yellow")
    files = write_files(result, output)
    say(console, f"results in {', '.join(str(path) for path in files)}")
    for page in write_pages(result, output):
        say(console, f"report: {page.resolve()}")


def choose_protocol(
    name: str | None, test: str | None, fit: str | None, ood: Sequence[str], kind: str | None
) -> str | Protocol:
    """The protocol by name, one's own, or the feature folder that stands in its place."""
    from ..benchmarks import own_protocol

    if test is not None or fit is not None or ood:
        if name is not None or test is None:
            raise InputError("your own protocol is --id DIR --fit DIR --ood NAME=DIR …, without a PROTOCOL")
        pairs = dict(_pair(text, "--ood", "NAME=DIR") for text in ood)
        if len(pairs) < len(ood):
            raise InputError("two OOD sets have the same name: choose another NAME in --ood NAME=DIR")
        return own_protocol(test=test, fit=fit, ood=pairs, kind=kind)
    if name is None:
        raise InputError("name a protocol, features:FOLDER, or your own data with --id, --fit and --ood")
    return name


def parse_weights(texts: Sequence[str]) -> dict[str, Path]:
    pairs = (_pair(text, "--weights", "MODEL=FILE", last=True) for text in texts)
    return {name: Path(file) for name, file in pairs}


def command_line(root: Path | None) -> str:
    """What was typed, with the data root by its variable: the same line works elsewhere."""
    if root is None:
        return shlex.join(["theodolite", *sys.argv[1:]])
    below = re.compile(rf"(^'?|[=:]){re.escape(str(root))}(?=/|$)")
    words = [shlex.quote(word) for word in sys.argv[1:]]
    return " ".join(["theodolite", *(below.sub(r"\1$THEODOLITE_DATA", word) for word in words)])


def _pair(text: str, option: str, form: str, *, last: bool = False) -> tuple[str, str]:
    """The parts before and after the first, or the last, equals sign."""
    name, equals, value = text.rpartition("=") if last else text.partition("=")
    if not equals or not name or not value:
        raise InputError(f"{option} {text!r} must have the form {form}")
    return name, value
