"""`theodolite bench`: every score on every model and OOD set of a protocol."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InputError
from . import _options as options
from . import _views as views
from ._console import say, screen
from ._progress import watching

if TYPE_CHECKING:
    from ..benchmarks import Protocol, Repeats, RunResult
    from ..report.tables import Table, View

_REPLICATES = 1000
# Published rows of a leaderboard that are shown with the measured ones; the files have all.
_SHOWN = 15


def bench(
    protocol: Annotated[
        str | None,
        typer.Argument(
            help="cifar10, imagenet, near-ood, mnist, clinc150, openood-cifar10, -cifar100, -imagenet200, "
            "-imagenet1k; features:FOLDER; or --id, --fit, --ood."
        ),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="What model, or features:FOLDER. May be repeated.")
    ] = None,
    repeat: views.RepeatsOf = None,
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
    ranking: Annotated[
        list[Path] | None,
        typer.Option("--ranking", help="A record of `theodolite tune`: judge what it chose, on other data."),
    ] = None,
    ensemble: Annotated[bool, typer.Option("--ensemble", help="Also the sum of the models' scores.")] = False,
    combine: Annotated[
        list[str] | None,
        typer.Option("--combine", help="The models together by this rule: sum, standardised, p-values."),
    ] = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Bootstrap confidence intervals.")] = False,
    replicates: Annotated[int, typer.Option(min=1, help="Bootstrap replicates.")] = _REPLICATES,
    against: views.Against = None,
    metric: views.Metrics = None,
    sort: views.Sort = None,
    only: views.Only = None,
    top: views.Top = None,
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
    full_spectrum: Annotated[
        bool, typer.Option("--full-spectrum", help="Shifted ID data count as ID (OpenOOD's csID).")
    ] = False,
    own_lists: Annotated[
        bool, typer.Option("--own-lists", help="Take lists of pictures that are not OpenOOD's, on purpose.")
    ] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", help="Several layers: scores that need no head on each, combined."),
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
    force: Annotated[
        bool, typer.Option("--force", help="Measure although a head hardly agrees with the labels.")
    ] = False,
) -> None:
    """Measure scores on a protocol, next to the published values; an interrupted run goes on."""
    from ..benchmarks import BenchSettings, Intervals, Ranking
    from ..benchmarks import bench as run_bench
    from ..benchmarks.foreseen import foreseen
    from ..core.places import data_root
    from ..features.settings import Running
    from ..report.documents import write_files
    from ..report.page import write_pages
    from ..report.tables import terminal

    console = screen()
    view = views.view_of(metric, sort, only, top)
    models: list[str | Repeats] = [*(model or []), *views.repeats_of(repeat)]
    chosen = choose_protocol(protocol, id_data, fit_data, ood or [], kind, folders=bool(models))
    if own_lists:
        chosen = with_own_lists(chosen)
    rankings = [Ranking.load(path) for path in ranking or []]
    view.require_possible(foreseen(chosen, models, detector or [], shaping or [], rankings))
    with watching(console) as watcher:
        result = run_bench(
            chosen,
            models,
            detectors=detector or [],
            shapings=shaping or [],
            ensemble=[*(["sum"] if ensemble else []), *combine] if combine else ensemble,
            full_spectrum=full_spectrum,
            intervals=Intervals(
                replicates if intervals else 0, seed=seed, metrics=view.metrics, tests=replicates
            ),
            against=against,
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
                force=force,
                layers=layer or (),
            ),
            rankings=rankings,
        )
    try:
        view.require_fits(result)
    except InputError as error:
        whole, *_ = [*write_files(result, output), *write_pages(result, output)]
        raise InputError(f"{error}. What was measured is in {whole.parent}, all of it") from error
    for part in shown(result, view):
        if isinstance(part, str):
            say(console, part)
        else:
            console.print(terminal(part))
    for doubt in result.doubts.values():
        say(console, doubt, "yellow", title="measured by force: ")
    for line in result.left_out:
        say(console, f"left out: {line}", "yellow")
    for line in [*result.notes, *result.cautions]:
        say(console, line, "yellow", title="note: ")
    files = write_files(result, output, view=view)
    say(console, f"results in {', '.join(str(path) for path in files)}")
    first, *others = write_pages(result, output, sort=view.sort)
    beside = f", with {len(others)} pages of single models beside it" if result.joint and others else ""
    say(console, f"report: {first.resolve()}{beside}")
    for page in () if result.joint else others:
        say(console, f"report: {page.resolve()}")


def shown(result: RunResult, view: View) -> Iterator[Table | str]:
    """What the screen shows of a result: tables, and lines of text between them."""
    from ..report.documents import accuracy_text
    from ..report.tables import joint_tables, leaderboard_tables, model_tables, paired_tables

    yield from joint_tables(result, view)
    if result.joint is not None:
        yield from result.joint.notes
    yield from model_tables(result, view)
    yield from leaderboard_tables(result, top=_SHOWN)
    yield from paired_tables(result, view)
    yield from () if result.paired is None else result.paired.notes
    yield from result.accuracies
    for label, said in result.choices.items():
        yield f"{label}: {said}"
    for name, measured in result.subjects.items():
        if measured.published_accuracy:
            yield f"{name}: ID accuracy {accuracy_text(measured)}"


def choose_protocol(
    name: str | None,
    test: str | None,
    fit: str | None,
    ood: Sequence[str],
    kind: str | None,
    *,
    folders: bool = False,
) -> str | Protocol:
    """The protocol by name, one's own, or what stands in its place: a feature folder, or ``features``.

    With ``folders`` there are models, which may all be feature folders.
    """
    from ..benchmarks import own_protocol
    from ..benchmarks.asked import FOLDERS

    if test is not None or fit is not None or ood:
        if name is not None or test is None:
            raise InputError("your own protocol is --id DIR --fit DIR --ood NAME=DIR …, without a PROTOCOL")
        pairs = parse_pairs(ood, "--ood", "NAME=DIR")
        return own_protocol(test=test, fit=fit, ood=pairs, kind=kind)
    if name is None and folders:
        return FOLDERS
    if name is None:
        raise InputError("name a protocol, features:FOLDER, or your own data with --id, --fit and --ood")
    return name


def with_own_lists(chosen: str | Protocol) -> Protocol:
    """The protocol without the comparison of its lists; a feature folder has no lists."""
    from ..benchmarks.asked import FEATURES
    from ..benchmarks.protocols import protocol

    if isinstance(chosen, str) and chosen.startswith(FEATURES):
        raise InputError(f"--own-lists is for lists of pictures, and {chosen} holds features: leave it out")
    return (protocol(chosen) if isinstance(chosen, str) else chosen).with_own_lists()


def parse_pairs(texts: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Sets by their names."""
    pairs = dict(_pair(text, option, form) for text in texts)
    if len(pairs) < len(texts):
        raise InputError(f"two OOD sets have the same name: choose another NAME in {option} {form}")
    return pairs


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
