"""The commands, one file each. They import what they need when they run: `--help` stays quick."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Enter the commands: from a model and pictures to verdicts, then the benchmarks."""
    from .bench import bench
    from .data import data
    from .extract import extract
    from .fit import fit
    from .inspect import inspect
    from .models import models
    from .probe import probe
    from .reproduce import reproduce
    from .score import score

    for command in (models, extract, probe, fit, score, inspect, data, bench, reproduce):
        app.command()(command)
