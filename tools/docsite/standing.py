"""Where a score stands in the committed tables: read from results/*.json, never typed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from theodolite.benchmarks.result import FORMAT, RunResult

# A table of at least so many scores as they are by default is one to have a place in.
_MANY = 20
_METRICS = ("fpr95", "auroc")


@dataclass(frozen=True)
class Standing:
    """A score on one OOD set of one model: its figures, and its place by FPR95 among all scores there."""

    page: str
    command: str
    model: str
    ood: str
    fpr95: float
    auroc: float
    place: int
    scores: int


def tables(folder: Path) -> dict[str, RunResult]:
    """The committed runs that have every score, by the name of their file."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text("utf-8"))
        if content.get("format") != FORMAT or "cells" not in content:
            continue
        result = RunResult.from_json(content)
        if len(_plain(result)) >= _MANY:
            found[path.stem] = result
    return found


def standings(results: dict[str, RunResult]) -> dict[str, list[Standing]]:
    """By score, its places on every OOD set of every network; the best first. Ensembles are left aside."""
    found: dict[str, list[Standing]] = {}
    for page, result in results.items():
        for model in result.models:
            for ood in result.ood_names(model):
                for name, standing in _column(page, result, model, ood):
                    known = {(other.model, other.ood) for other in found.get(name, [])}
                    if (standing.model, standing.ood) not in known:
                        found.setdefault(name, []).append(standing)
    return {name: sorted(places, key=lambda each: each.fpr95) for name, places in found.items()}


def _column(page: str, result: RunResult, model: str, ood: str) -> Iterable[tuple[str, Standing]]:
    labels = [label for label in result.detector_names(model) if label in _plain(result)]
    figures = {
        label: tuple(result.cell(model, label, ood, metric).value for metric in _METRICS) for label in labels
    }
    for label, (fpr95, auroc) in figures.items():
        place = 1 + sum(other[0] < fpr95 for other in figures.values())
        name = result.detectors[label].detector
        assert name is not None  # `_plain` took none without
        yield name, Standing(page, result.command, model, ood, fpr95, auroc, place, len(labels))


def _plain(result: RunResult) -> set[str]:
    """Rows of scores as they are by default: no shaping, no option that somebody asked for."""
    return {
        label
        for label, facts in result.detectors.items()
        if facts.detector is not None and facts.text == facts.detector and facts.shaping is None
    }
