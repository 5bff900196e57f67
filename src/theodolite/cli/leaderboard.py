"""`theodolite leaderboard`: what OpenOOD's leaderboard prints, and with what to take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import InputError
from ._console import say, screen

if TYPE_CHECKING:
    from ..published import Leaderboard, SetFigures
    from ..report.tables import Table
    from ..report.tables.leaderboard import Standing

_SETS = ("auroc", "fpr95_ood_positive")
_FORMS = ("screen", "md", "csv", "tex", "json")


def leaderboard(
    name: Annotated[
        str | None,
        typer.Argument(help="cifar10, cifar100, imagenet200 or imagenet1k. None: list them."),
    ] = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="Only this architecture, such as ResNet50 or vit-b/16.")
    ] = None,
    training: Annotated[
        str | None, typer.Option("--training", help="Only this training, such as CrossEntropy.")
    ] = None,
    sort: Annotated[str, typer.Option("--sort", help="near, far or accuracy: best first.")] = "near",
    top: Annotated[int | None, typer.Option("--top", min=1, help="So many rows at most.")] = None,
    full_spectrum: Annotated[
        bool, typer.Option("--full-spectrum", help="The table that counts shifted ID data as ID.")
    ] = False,
    sets: Annotated[
        bool, typer.Option("--sets", help="Also the figures of single OOD sets, where they are published.")
    ] = False,
    form: Annotated[str, typer.Option("--format", help="screen, md, csv, tex or json.")] = "screen",
) -> None:
    """Show OpenOOD's leaderboard (v1.5): near- and far-OOD AUROC of post-processors, as published."""
    from ..published import list_leaderboards, list_set_figures, load_leaderboard, load_set_figures
    from ..published.leaderboard import FULL_SPECTRUM
    from ..report.tables import csv_text, latex, terminal
    from ..report.tables.leaderboard import leaderboard_table, set_table, standings

    console = screen()
    if form not in _FORMS:
        raise InputError(f"--format must be one of {', '.join(_FORMS)}, got {form!r}")
    if name is None:
        for known in list_leaderboards():
            board = load_leaderboard(known)
            say(console, f"{len(board.rows)} rows, {', '.join(board.architectures)}", title=f"{known}: ")
        return
    chosen = f"{name.removesuffix(FULL_SPECTRUM)}{FULL_SPECTRUM}" if full_spectrum else name
    if chosen not in list_leaderboards() and name in list_leaderboards():
        raise InputError(f"--full-spectrum: the leaderboard has no such table of {name}")
    board = load_leaderboard(chosen)
    rows = standings(board, architecture=arch, training=training)
    found = [load_set_figures(known) for known in list_set_figures() if sets]
    single = [figures for figures in found if figures.board == board.name]
    if form == "json":
        typer.echo(_json(board, rows, sort, top, single))
        return
    tables = [leaderboard_table(board, rows, sort=sort, top=top)]
    tables += [set_table(board, figures, metric) for figures in single for metric in _SETS]
    if form == "screen":
        for table in tables:
            console.print(terminal(table))
    else:
        write = {"md": _document, "csv": csv_text, "tex": latex}[form]
        typer.echo("\n".join(write(table) for table in tables), nl=False)


def _document(table: Table) -> str:
    from ..report.tables import markdown

    legend = ["", f"{table.legend}."] if table.legend else []
    return "\n".join([f"## {table.title}", "", *markdown(table), *legend, ""])


def _json(
    board: Leaderboard, rows: list[Standing], sort: str, top: int | None, single: list[SetFigures]
) -> str:
    import json

    from ..core.plain import to_plain
    from ..report.tables.leaderboard import notes_on, ranked

    told = {
        "leaderboard": board.name,
        "title": board.title,
        "protocol": board.protocol,
        "full_spectrum": board.full_spectrum,
        "sort": sort,
        "rows": [{"place": place, **vars(row)} for place, row in ranked(rows, sort=sort, top=top)],
        "caveats": notes_on(board, rows),
    }
    return json.dumps(to_plain({**told, "sets": single} if single else told), ensure_ascii=False, indent=2)
