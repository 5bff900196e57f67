"""`theodolite export`: a guard as one graph for other runtimes, compared with PyTorch first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from . import _options as options
from ._console import say, screen

if TYPE_CHECKING:
    from ..guard.export import ExportRecord


def export(
    guard: options.GuardName,
    output: Annotated[Path, typer.Argument(help="The file to write: .onnx (extra onnx) or .pt2.")],
    takes: Annotated[
        str | None,
        typer.Option("--from", help="features or images: what goes in (default images, given a model)."),
    ] = None,
    with_preprocessing: Annotated[
        bool,
        typer.Option("--with-preprocessing", help="Take uint8 RGB pictures: resize, crop, normalise inside."),
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--check", help="Real inputs to compare on: pictures, or features with --from features."
        ),
    ] = None,
    model: options.OwnModel = None,
    weights: options.Weights = None,
    accept_code_change: options.AcceptCodeChange = False,
) -> None:
    """Write a guard as one graph, ONNX or torch.export: model, score, calibration and verdict inside."""
    from ..guard import Guard

    console = screen()
    loaded = Guard.load(guard, model=model, weights=weights, accept_code_change=accept_code_change)
    done = loaded.export(
        output,
        takes=takes,
        with_preprocessing=with_preprocessing,
        check=check,
        model=model,
        weights=weights,
    )
    record = done.record
    console.print(_table(record))
    if check is None:
        say(console, "compared on made inputs alone: name real ones with --check")
    if takes is None and record.takes == "features":
        say(console, "the guard knows no model: the graph takes features")
    if record.preprocessing is not None and record.preprocessing.note is not None:
        say(console, record.preprocessing.note, title="preprocessing: ")
    if done.beside is not None:
        say(console, f"pictures are prepared outside the graph, as {done.beside} says")
    size = done.path.stat().st_size
    say(
        console,
        f"{done.path}: {size:,} bytes; takes {record.takes} {_shape(record)}, gives "
        f"{', '.join(record.outputs)}",
    )


def _table(record: ExportRecord) -> Table:
    table = Table(title="The graph beside PyTorch")
    table.add_column("inputs")
    for heading in (
        "rows",
        "largest difference of scores",
        "ranks moved",
        "verdicts at a tie",
        "beyond 1e-5",
    ):
        table.add_column(heading, justify="right")
    for one in record.compared:
        beyond = str(one.beyond) if record.takes == "features" else "–"
        table.add_row(
            one.inputs,
            str(one.rows),
            f"{one.score_difference:.1e}",
            str(one.ranks),
            str(one.verdicts),
            beyond,
        )
    return table


def _shape(record: ExportRecord) -> str:
    return (
        "("
        + ", ".join("N" if side == 0 else str(size or "any") for side, size in enumerate(record.shape))
        + ")"
    )
