"""The `theodolite` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from .._version import __version__
from ..core.errors import InputError, TheodoliteError
from . import register

app = typer.Typer(
    name="theodolite",
    help="Out-of-distribution detection with relative angles.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"theodolite {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _theodolite(
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="A Python module with scores of your own (@register), imported first."),
    ] = None,
) -> None:
    for name in modules or []:
        _import(name)


def _import(name: str) -> None:
    """A module that lies in the working directory, or is installed."""
    from ..core.compat import import_module

    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        import_module(name)
    except ImportError as error:
        raise InputError(
            f"--import {name}: {error}. Check that it is installed or lies in the working directory"
        ) from error


@app.command()
def detectors() -> None:
    """List every score: formula, what it needs to be fitted, paper."""
    from ..report.tables import detectors_table

    console.print(detectors_table())


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the pictures and the report.")
    ] = Path("theodolite-demo"),
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs of the small network.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of training and sampling.")] = 0,
) -> None:
    """Train a small network on real digits and show every score against what it never saw."""
    from ..demo.run import run_demo

    result = run_demo(output, epochs=epochs, seed=seed, console=console)
    lines = (
        f"{len(result.files)} pictures in [bold]{escape(str(output.resolve()))}[/bold]",
        f"report: [bold]{escape(str(result.report.resolve()))}[/bold]",
    )
    console.print("\n" + "\n".join(lines), highlight=False, soft_wrap=True)


register(app)


def main() -> None:
    """Run the command; errors of ours are one paragraph and exit code 2, never a traceback."""
    try:
        app()
    except TheodoliteError as error:
        message = Text.assemble(("error: ", "bold red"), str(error))
        Console(stderr=True).print(message, soft_wrap=True)
        raise SystemExit(2) from error
