"""What a run chose by itself, and the parts of its start, as `extract` and `score` say it."""

from __future__ import annotations

from rich.console import Console

from ..features.run_log import RunLog, since_process_began
from ._console import say


def started() -> RunLog:
    """A log whose first part, the imports, ends now; it begins with the process where the system tells."""
    log = RunLog()
    log.began -= since_process_began()
    log.lap("imports")
    return log


def say_run(console: Console, log: RunLog, *, timings: bool) -> None:
    """A line on what was chosen, if pictures were looked at, and with ``timings`` one on the start."""
    if log.chosen:
        say(console, "; ".join(log.chosen))
    if timings:
        parts = ", ".join(f"{part} {seconds:.2f}" for part, seconds in log.parts.items())
        say(console, f"start-up {sum(log.parts.values()):.2f} s: {parts}")
