"""Options of what `bench` shows of its result; ``results.json``, ``results.csv`` and pages stay whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..core.errors import InputError

if TYPE_CHECKING:
    from ..benchmarks import Repeats
    from ..report.tables import View

Metrics: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Tables of this metric: fpr95, auroc, aupr_in, aupr_out, fpr95_ood_positive. May be repeated.",
    ),
]
Sort: TypeAlias = Annotated[
    str | None,
    typer.Option("--sort", help="Order of rows: name, average, rank, a metric, or an OOD set; best first."),
]
Only: TypeAlias = Annotated[
    list[str] | None, typer.Option("--only", help="Rows of scores like this: 'ora*'. May be repeated.")
]
Top: TypeAlias = Annotated[
    int | None,
    typer.Option("--top", min=1, help="So many of the best rows, ties and the recommended score besides."),
]
Against: TypeAlias = Annotated[
    str | None,
    typer.Option("--against", help="Hold every score against this one: paired bootstrap tests."),
]
RepeatsOf: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--repeat",
        help="NAME=MODEL: one of several checkpoints or seeds of NAME, shown as mean ± std. To be repeated.",
    ),
]


def view_of(
    metrics: Sequence[str] | None, sort: str | None, only: Sequence[str] | None, top: int | None
) -> View:
    """What the options ask to see; a metric that does not exist is refused here."""
    from ..report.tables import View

    return View(tuple(metrics or ()), sort, tuple(only or ()), top)


def repeats_of(texts: Sequence[str] | None) -> list[Repeats]:
    """Models by name, each with what its repeats are; in the order they are first named."""
    from ..benchmarks import Repeats

    models: dict[str, list[str]] = {}
    for text in texts or ():
        name, equals, model = text.partition("=")
        if not equals or not name or not model:
            raise InputError(f"--repeat {text!r} must have the form NAME=MODEL")
        models.setdefault(name, []).append(model)
    return [Repeats(name, tuple(members)) for name, members in models.items()]
