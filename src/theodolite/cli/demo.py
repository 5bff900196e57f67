"""`theodolite demo`: a benchmark of a network trained here and now, and verdicts on photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ._progress import progress_bar


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures and the report.")
    ] = Path("theodolite-demo"),
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs of the small network.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of training and sampling.")] = 0,
) -> None:
    """Train a small network on real digits and show every score against what it never saw."""
    from ..demo.run import KNOWN, NAME, run_demo
    from ..report.tables import metric_tables, terminal

    console = Console()
    with progress_bar(console, "training LeNet-5", unit="epochs") as show:
        made = run_demo(output, epochs=epochs, seed=seed, progress=lambda epoch, _loss: show(epoch, epochs))
    facts = made.result.subjects[NAME]
    console.print(
        f"\nLeNet-5 on {KNOWN}: {facts.accuracy:.1f} % of {facts.samples['id_test']:,} held-out digits right"
    )
    for table in metric_tables(made.result):
        console.print(terminal(table))
    console.print(Text(made.guard_line), soft_wrap=True)
    files = [*made.files, *_photos(output, console)]
    report = made.write_page(output)
    console.print(
        Text.assemble(f"\n{len(files)} pictures in ", (str(output.resolve()), "bold")), soft_wrap=True
    )
    console.print(Text.assemble("report: ", (str(report.resolve()), "bold")), soft_wrap=True)


def _photos(output: Path, console: Console) -> list[Path]:
    """Without the network's packages say so and go on."""
    from ..core.errors import MissingExtraError
    from ..demo.photos import judge_photos

    try:
        photos = judge_photos(output)
    except MissingExtraError as error:
        console.print(Text(f"\nThe verdicts on photographs are left out: {error}"), soft_wrap=True)
        return []
    console.print(Text(f"\n{photos.line}"), soft_wrap=True)
    return [photos.sheet]
