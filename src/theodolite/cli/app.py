"""The `theodolite` command."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Annotated, NoReturn, TextIO

import typer

from .._version import __version__
from ..core.errors import InputError, TheodoliteError, TheodoliteWarning
from ._console import clean, say, screen
from ._importing import import_own
from .bench import bench
from .collect import collect
from .combine import combine
from .data import data
from .demo import demo
from .detectors import detectors
from .embed import embed
from .explain import explain
from .export import export
from .extract import extract
from .fit import fit
from .inspect import inspect
from .leaderboard import leaderboard
from .models import models
from .monitor import monitor
from .probe import probe
from .reproduce import reproduce
from .score import score
from .serve import serve
from .train import train
from .tune import tune

# In the order of `--help`: what there is, from a model and pictures to verdicts, then the benchmarks.
COMMANDS = (
    *(detectors, demo, models, train, extract, probe, embed),
    *(collect, fit, combine, score, explain, export, serve, monitor, inspect),
    *(data, tune, bench, leaderboard, reproduce),
)

# Of a path in an error: enough to recognise it.
_LONGEST = 300

app = typer.Typer(
    name="theodolite",
    help="Out-of-distribution detection with relative angles.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(screen(), f"theodolite {__version__}")
        raise typer.Exit


@app.callback()
def _theodolite(
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            help="A Python module (my_scores) or file (./my_scores.py) with scores, sources, … of your own.",
        ),
    ] = None,
) -> None:
    for name in modules or []:
        import_own(name)


for _command in COMMANDS:
    app.command()(_command)


def main() -> None:
    """Run the command; errors of ours, and the system's about a file, are one paragraph and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names may hold what no terminal can write
            stream.reconfigure(errors="backslashreplace")
    warnings.simplefilter("always", TheodoliteWarning)
    warnings.showwarning = _print_warning
    try:
        _require_plain_options(sys.argv[1:])
        app()
    except TheodoliteError as error:
        _refuse(str(error), error)
    except OSError as error:  # a name that is too long, a folder that may not be entered, a disk that fails
        if error.filename is None:
            raise
        name = str(error.filename)
        shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}… ({len(name):,} characters)"
        _refuse(f"{shown}: {error.strerror}. Check the path, and what you may do there", error)


def _refuse(why: str, error: Exception) -> NoReturn:
    say(screen(stderr=True), why, "bold red", title="error: ")
    raise SystemExit(2) from error


def _require_plain_options(words: list[str]) -> None:
    """A file that is called like an option comes with the names of a folder; what it says is not printed."""
    for word in words:
        if word.startswith("-") and clean(word) != word:
            raise InputError(
                f"{word} is no option: it holds control characters. A path that begins with - is ./-…, and a "
                f"value with such characters stands by itself after its option"
            )


_foreign_warning = warnings.showwarning


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Warnings of ours are notes, without a place in the code."""
    if issubclass(category, TheodoliteWarning):
        say(screen(stderr=True), str(message), "yellow", title="note: ")
    else:
        _foreign_warning(message, category, filename, lineno, file, line)
