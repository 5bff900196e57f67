"""`theodolite demo`: a benchmark of a network trained here and now, and verdicts on photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import _options as options
from ._console import say, screen
from ._progress import progress_bar

_NEXT = {
    "next, your model": "theodolite fit --model timm:NAME --data DIR --calibration-data DIR -o g.safetensors",
    "every score on your own features": "theodolite bench features:FOLDER --sort average",
    "the paper's own network": "theodolite reproduce mnist",
}


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures and the report.")
    ] = Path("theodolite-demo"),
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs of the small network.")] = 15,
    seed: options.Seed = 0,
) -> None:
    """Train a small network on real digits and show scores against what it never saw."""
    from ..demo import KNOWN, NAME, demo_table, run_demo
    from ..report.tables import terminal

    console = screen()
    with progress_bar(console, "training a small network", unit="epochs") as show:
        made = run_demo(output, epochs=epochs, seed=seed, progress=lambda epoch, _loss: show(epoch, epochs))
    facts = made.result.subjects[NAME]
    console.print()
    held_out = f"{facts.samples['id_test']:,} held-out digits"
    say(console, f"{NAME}, trained here on {KNOWN}: {facts.accuracy:.1f} % of {held_out} right")
    console.print(terminal(demo_table(made.result, NAME)))
    say(console, made.lesson, "bold", title="What it teaches: ")
    say(console, f"{made.guard_line}.")
    files = [*made.files, *_photos(output, console)]
    report = made.write_page(output)
    console.print()
    say(console, f"report: {report.resolve()}, with {len(files)} pictures beside it")
    for what, command in _NEXT.items():
        say(console, command, title=f"{what}: ")


def _photos(output: Path, console: Console) -> list[Path]:
    """Without the network's packages say so and go on."""
    from ..core.errors import MissingExtraError
    from ..demo.photos import judge_photos

    try:
        photos = judge_photos(output)
    except MissingExtraError as error:
        say(console, f"The verdicts on photographs are left out: {error}")
        return []
    say(console, f"{photos.line}.")
    return [photos.sheet]
