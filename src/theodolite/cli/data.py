"""`theodolite data`: which data sets are here, which are missing, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ._console import clean, say, screen

if TYPE_CHECKING:
    from ..benchmarks.locate import Located

_MANY = 2
_STYLES = {"present": "green", "missing": "dim", "wrong": "bold red"}


def data(
    root: Annotated[
        Path | None, typer.Option("--root", help="Folder of all data sets (default: THEODOLITE_DATA).")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Also compare the listing's checksum, where it is known.")
    ] = False,
) -> None:
    """Show which data sets of the protocols are present, which are missing and how to get them."""
    from ..benchmarks.datasets import list_datasets
    from ..benchmarks.locate import locate
    from ..benchmarks.protocols import list_protocols
    from ..core.places import data_root

    console = screen()
    folder = data_root(root)
    say(console, f"data root: {folder or 'none (set THEODOLITE_DATA or pass --root)'}")
    found = [
        locate(dataset.name, split, folder, verify=verify)
        for dataset in list_datasets()
        for split in dataset.splits
    ]
    console.print(located_table(found))
    states = {(entry.dataset.name, entry.split_name): entry.state for entry in found}
    for protocol in list_protocols():
        absent = [
            f"{part.dataset} ({part.split}) {states[part.dataset, part.split]}"
            for part in protocol.sets
            if part.dataset is not None and states[part.dataset, part.split] != "present"
        ]
        if len(absent) == len(protocol.sets) and all(part.listed for part in protocol.sets):
            absent = [f"all of its {len(absent)} lists and their pictures"]
        verdict = f"needs {', '.join(absent)}" if absent else "everything is here"
        say(console, verdict, "bold", title=f"{protocol.name}: ")
    wrong = [entry for entry in found if entry.state == "wrong"]
    if wrong:
        raise typer.Exit(1)


def located_table(found: list[Located]) -> Table:
    """One row a split, with what was found and, unless it is there, where to get it: once a data set."""
    table = Table(show_lines=False)
    table.add_column("data set", no_wrap=True)
    table.add_column("split", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("found; how to get it", overflow="fold")
    told: set[str] = set()
    for entry, splits in _shown(found):
        again = entry.present or entry.dataset.name in told
        detail = entry.detail if again else f"{entry.detail}. Get it: {entry.dataset.obtain}"
        if not entry.present:
            told.add(entry.dataset.name)
        count = entry.split.count if splits == 1 else None
        table.add_row(
            entry.dataset.name,
            entry.split_name if splits == 1 else f"all {splits}",
            "" if count is None else f"{count:,}",
            Text(entry.state, style=_STYLES[entry.state]),
            Text(clean(detail)),
        )
    return table


def _shown(found: list[Located]) -> list[tuple[Located, int]]:
    """What has a line, and for how many splits: one for a data set of many splits that is wholly missing."""
    by_name: dict[str, list[Located]] = {}
    for entry in found:
        by_name.setdefault(entry.dataset.name, []).append(entry)
    shown: list[tuple[Located, int]] = []
    for entries in by_name.values():
        if len(entries) > _MANY and all(entry.state == "missing" and entry.path is None for entry in entries):
            shown.append((entries[0], len(entries)))
        else:
            shown += [(entry, 1) for entry in entries]
    return shown
