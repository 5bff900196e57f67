"""`theodolite reproduce`: the paper's tables and figures, as far as data and checkpoints are here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import _options as options
from ._console import clean, say, screen

if TYPE_CHECKING:
    from ..paper import Context, Item, Produced

_SHOWN = 4


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tables, figures or experiments; `all` runs every experiment. None: list them."),
    ] = None,
    root: options.Root = None,
    cache: options.Cache = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("results"),
    seed: options.Seed = 0,
) -> None:
    """Reproduce tables and figures of the paper: run what is present, say what is missing."""
    from ..core.places import cache_folder, data_root
    from ..paper import Context, resolve, run_item

    console = screen()
    folder = data_root(root)
    if not names:
        console.print(overview(folder))
        console.print(experiments_table(folder))
        return
    chosen, wanted = resolve(names)

    def told(text: str) -> None:
        say(console, text, "dim")

    where = cache_folder(cache) / "bench"
    for item in chosen:
        _say_missing(console, item, folder)
        if folder is not None and not item.figure and item.runnable(folder):
            _write(run_item(item, Context(folder, where, seed, told)), output, console)
        if folder is not None:
            _draw(item, Context(folder, where, seed, told), output, console)
    for experiment in wanted:
        missing = experiment.missing(folder)
        if missing:
            reasons = "; ".join(missing)
            say(console, f"{experiment.name} cannot run here: {reasons}", "yellow")
            continue
        # What needs nothing runs without a data root.
        _write(experiment.run(Context(folder or Path(), where, seed, told)), output, console)


def _draw(item: Item, context: Context, output: Path, console: Console) -> None:
    """A figure of the paper, from the data at hand."""
    from ..paper import paper_figures
    from ..report import figures

    if not _drawable(item, context.root):
        return
    drawn, source = paper_figures()[item.name].drawn(context)
    say(console, f"  drawn from {source}")
    for name, figure in drawn.items():
        paths = figures.save(figure, output / name)
        say(console, ", ".join(str(path) for path in paths))


def _say_missing(console: Console, item: Item, root: Path | None) -> None:
    drawn = ["the figure"] * _drawable(item, root)
    stand_ins = ", ".join([*drawn, *item.stand_ins]) or "none"
    say(console, item.title, "bold", title=f"{item.name}: ")
    missing = item.missing(root)
    for line in missing:
        say(console, f"  missing: {line}", "yellow")
    if missing or not item.pairs:
        say(console, f"  on the data at hand: {stand_ins}")


def _write(produced: Produced, output: Path, console: Console) -> None:
    """Print the tables, then write them as JSON and Markdown."""
    from ..core.files import write_bytes, write_json
    from ..report.tables import terminal

    output.mkdir(parents=True, exist_ok=True)
    for name, study in produced.items():
        for table in study.tables():
            console.print(terminal(table))
        write_json(output / f"{name}.json", study.to_json())
        write_bytes(output / f"{name}.md", study.document().encode())
        say(console, f"{output / name}.json, {output / name}.md")


def overview(root: Path | None) -> Table:
    """Every table and figure: whether it can run, what is missing, and what stands in for it."""
    from ..paper import experiments, items

    table = Table(box=SIMPLE_HEAD, title="Tables and figures of the paper", title_justify="left")
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("runs here", no_wrap=True)
    table.add_column("missing")
    table.add_column("on the data at hand")
    tried = experiments()
    for item in items().values():
        missing = item.missing(root)
        able = [name for name in item.stand_ins if not tried[name].missing(root)]
        drawn = _drawable(item, root)
        if item.pairs:
            runs = "yes" if not missing else "in part" if item.runnable(root) else "no"
        else:
            runs = "yes" if drawn or able else "no"
        short = [line.split(":")[0] for line in missing]
        more = f" and {len(short) - _SHOWN} more" if len(short) > _SHOWN else ""
        instead = ["the figure"] * drawn + able
        table.add_row(item.name, runs, Text(clean(", ".join(short[:_SHOWN]) + more)), ", ".join(instead))
    return table


def _drawable(item: Item, root: Path | None) -> bool:
    from ..paper import paper_figures

    figure = paper_figures().get(item.name)
    return figure is not None and figure.drawable(root)


def experiments_table(root: Path | None) -> Table:
    """Every experiment by name: whether it can run."""
    from ..paper import experiments

    table = Table(box=SIMPLE_HEAD, title="Experiments on the data at hand", title_justify="left")
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("runs here", no_wrap=True)
    table.add_column("what")
    for experiment in experiments().values():
        table.add_row(experiment.name, "no" if experiment.missing(root) else "yes", experiment.title)
    return table
