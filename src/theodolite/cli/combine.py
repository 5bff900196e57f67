"""`theodolite combine`: several guards, one verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import _options as options
from ._calibration import interval_text, threshold_text
from ._console import say, screen
from .fit import require_place


def combine(
    guards: Annotated[list[str], typer.Argument(help="Guards of several models, each in a file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the guard over all of them.")],
    calibration_data: Annotated[
        str,
        typer.Option("--calibration-data", help="ID pictures that no member was fitted on."),
    ],
    rule: Annotated[
        str,
        typer.Option("--combine", help="How scores become one: sum, standardised or p-values."),
    ] = "standardised",
    model: options.OwnModels = None,
    false_alarm_rate: options.FalseAlarmRate = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    device: options.Device = "auto",
    skip_unreadable: options.SkipUnreadable = False,
    accept_code_change: options.AcceptCodeChange = False,
) -> None:
    """Calibrate guards of several models together: one score, one threshold."""
    from ..features import Running
    from ..guard import EnsembleGuard, Guard
    from ..guard.calibration import FALSE_ALARM_RATE
    from ._progress import progress_bar

    console = screen()
    require_place(output)
    members = [Guard.load(one, accept_code_change=accept_code_change) for one in guards]
    with progress_bar(console, "calibrating") as show:
        both = EnsembleGuard.fit(
            members,
            calibration_data,
            combine=rule,
            model=model,
            false_alarm_rate=FALSE_ALARM_RATE if false_alarm_rate is None else false_alarm_rate,
            running=Running(device, workers, skip_unreadable=skip_unreadable, batch_size=batch_size),
            progress=show,
        )
    both.save(output)
    rate = both.false_alarm_rate
    say(
        console,
        f"{both.title}, {rule}, calibrated on {len(both.calibration):,} samples: score below "
        f"{threshold_text(both.calibration, rate)} is OOD (at most {100 * rate:g} % false alarms on average; "
        f"{interval_text(both.calibration, rate)}). Guard in {output}",
    )
    if both.why_no_class:
        say(console, f"{both.why_no_class}: no class is predicted", "yellow", title="note: ")
