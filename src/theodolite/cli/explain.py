"""`theodolite explain`: why a guard trusts a sample or does not, in words, as a figure or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InputError
from . import _options as options
from ._console import say, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..guard import Explanation

# Nobody reads more figures than these without having asked for them.
_MOST = 24


def explain(
    guard: options.GuardName,
    paths: options.Paths,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a figure (.png, .svg; of several samples why-1.png, …) or .json; else as text.",
        ),
    ] = None,
    bank: Annotated[
        Path | None,
        typer.Option(
            "--bank", help="ID features of the guard's model, for the nearest ID samples and their angles."
        ),
    ] = None,
    rows: Annotated[
        list[int] | None,
        typer.Option("--row", min=0, help="A row of the path, from 0; may be given several times."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Classes told at most.")] = 5,
    neighbours: Annotated[int, typer.Option("--neighbours", min=1, help="ID samples told at most.")] = 5,
    model: options.OwnModel = None,
    weights: options.Weights = None,
    kind: options.Kind = None,
    holds: options.From = None,
    false_alarm_rate: options.FalseAlarmRate = None,
    device: options.Device = "auto",
    limit: options.Limit = None,
    accept_code_change: options.AcceptCodeChange = False,
) -> None:
    """Say why a sample is trusted or flagged: classes, boundaries, the triangle, the nearest ID samples."""
    from ..features import Running
    from ..guard import Explainer, Guard, explain_paths
    from ..report.explanations import explanation_lines, require_output, write_explanations

    if output is not None:
        require_output(output)
    judge = Guard.load(guard, model=model, weights=weights, accept_code_change=accept_code_change)
    explainer = Explainer(judge, bank=bank, top=top, neighbours=neighbours, false_alarm_rate=false_alarm_rate)
    explained = explain_paths(
        explainer,
        paths,
        rows=rows or None,
        kind=options.kind_of(kind, holds),
        limit=limit,
        model=model,
        weights=weights,
        running=Running(device),
    )
    told = _few(explained, bounded=limit is None and not rows)
    console = screen()
    if output is None:
        for place, one in enumerate(told):
            for line in ("", *explanation_lines(one)) if place else explanation_lines(one):
                say(console, line)
        return
    for path in write_explanations(told, output):
        say(console, f"written to {path}")


def _few(explained: Iterator[Explanation], *, bounded: bool) -> list[Explanation]:
    """All explanations; more than a person asked for by number are refused."""
    told = []
    for one in explained:
        told.append(one)
        if bounded and len(told) > _MOST:
            raise InputError(
                f"the paths hold more than {_MOST} samples: name the rows of one path (--row 3 --row 17), or "
                f"say how many to explain (--limit 50)"
            )
    return told
