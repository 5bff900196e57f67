"""The command that does what a call of `bench` does: a result says how to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from .measure import Intervals
from .protocols import Protocol


def command_of(
    protocol: str | Protocol | None,
    *,
    repeated: Mapping[str, Sequence[str]],
    weights: Mapping[str, Path],
    flags: Mapping[str, bool],
    intervals: Intervals | None,
) -> str:
    """One line; ``repeated`` are options with all their values, ``flags`` those that are given or not."""
    words = ["theodolite", "bench", *_protocol_words(protocol)]
    for option, values in repeated.items():
        words += [word for value in values for word in (option, value)]
    for model, file in weights.items():
        words += ["--weights", f"{model}={file}"]
    words += [] if intervals is None else _interval_words(intervals, tested=bool(repeated.get("--against")))
    return shlex.join([*words, *(flag for flag, given in flags.items() if given)])


def _interval_words(intervals: Intervals, *, tested: bool) -> list[str]:
    """Draws and seed, of intervals or else of paired tests; metrics that have them beside the usual ones."""
    words = [word for name in intervals.metrics for word in ("--metric", name)]
    usual = Intervals()
    if intervals.replicates:
        words += ["--intervals", "--replicates", str(intervals.replicates), "--seed", str(intervals.seed)]
    elif tested and (intervals.tests, intervals.seed) != (usual.tests, usual.seed):
        words += ["--replicates", str(intervals.tests), "--seed", str(intervals.seed)]
    return words


def _protocol_words(protocol: str | Protocol | None) -> list[str]:
    """A protocol by its name; one's own by the paths of its sets; nothing where all models are folders."""
    if protocol is None:
        return []
    if isinstance(protocol, str):
        return [protocol]
    if any(part.path is None for part in protocol.sets):
        return [protocol.name]
    words = ["--id", str(protocol.test.path), "--fit", str(protocol.fit.path)]
    words += [word for part in protocol.ood for word in ("--ood", f"{part.name}={part.path}")]
    return [*words, *([] if protocol.test.kind is None else ["--kind", protocol.test.kind])]
