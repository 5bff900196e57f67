"""`theodolite score`: verdicts on images or on stored features, on screen and in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console

from . import _options as options

if TYPE_CHECKING:
    from torch import Tensor

    from ..guard.guard import Guard
    from ..report.score_files import ScoreRow

_SHOWN = 20
_BATCH = 64


def score(
    guard: Annotated[str, typer.Argument(help="A guard file, or a ready-made one: imagenet-lite0.")],
    paths: Annotated[list[str], typer.Argument(help="Images, folders, data files or feature stores.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all rows: .csv, .jsonl or .parquet.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The guard's model, if it is code of your own (python:…).")
    ] = None,
    weights: options.Weights = None,
    kind: options.Kind = None,
    false_alarm_rate: options.FalseAlarmRate = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    autocast: options.Autocast = False,
    channels_last: options.ChannelsLast = False,
    limit: options.Limit = None,
    skip_unreadable: options.SkipUnreadable = False,
) -> None:
    """Say for every image what the classifier sees, and whether to trust it."""
    from ..features.extract import Running
    from ..guard.guard import Guard, trusted_spec
    from ..guard.pictures import Looker
    from ..report.score_files import open_sink
    from ._progress import progress_bar
    from .summary import Summary

    console = Console()
    judge = Guard.load(guard, model=model)
    if model is not None and judge.provenance is not None:
        trusted_spec(judge.provenance, model)
    if false_alarm_rate is not None:
        judge.calibration.threshold(false_alarm_rate)
        judge.false_alarm_rate = false_alarm_rate
    running = Running(device, workers, autocast, channels_last, skip_unreadable)
    looker = Looker(
        judge,
        running,
        batch_size=batch_size or _BATCH,
        model=model,
        weights=weights,
        kind=kind,
        limit=limit,
    )
    summary = Summary(judge, shown=_SHOWN)
    with open_sink(output) as sink, progress_bar(console, "scoring") as show:
        told = 0
        for names, features in looker.features(paths):
            rows = verdict_rows(judge, names, features)
            sink.write(rows)
            sink.write(unreadable_rows(looker.skipped[told:]))
            told = len(looker.skipped)
            summary.add(rows)
            show(summary.count, looker.total)
        sink.write(unreadable_rows(looker.skipped[told:]))
    summary.print(console, looker.skipped, output)


def unreadable_rows(names: Sequence[str]) -> list[ScoreRow]:
    """Every picture has a row, also one that could not be read and was to be skipped."""
    from ..report.score_files import ScoreRow
    from .summary import UNREADABLE

    return [ScoreRow(name, None, None, None, None, UNREADABLE) for name in names]


def verdict_rows(guard: Guard, names: Sequence[str], features: Tensor) -> list[ScoreRow]:
    """The verdicts of one batch, a row a sample."""
    from ..report.score_files import ScoreRow
    from .summary import ID, OOD

    predicted, scores, p_values, flags = (np.asarray(column).tolist() for column in guard.verdicts(features))
    return [
        ScoreRow(name, label, guard.class_name(label), value, p_value, OOD if flagged else ID)
        for name, label, value, p_value, flagged in zip(
            names, predicted, scores, p_values, flags, strict=True
        )
    ]
