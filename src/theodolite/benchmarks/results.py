"""The results of a run: one plain dictionary that is the JSON file, and from which everything is printed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from .._version import __version__
from ..core.arrays import FloatArray
from ..detectors.spec import Entry
from ..evaluation.evaluation import head_accuracy
from ..evaluation.metrics import METRICS, bootstrap_average, evaluate
from .compare import AVERAGE, published_beside, published_ensemble
from .protocols import FIT, TEST
from .scoring import Scores
from .subject import Subject

FORMAT = "theodolite-results/1"
TABLED = ("fpr95", "auroc")  # the metrics that tables show; JSON and CSV have all
BETTER = {"fpr95": "lower", "auroc": "higher"}
_DIGITS = 6


def versions() -> dict[str, str]:
    return {
        "theodolite": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


class Intervals:
    """Bootstrap settings; ``replicates`` 0 means none."""

    def __init__(self, replicates: int = 0, *, level: float = 0.95, seed: int = 0) -> None:
        self.replicates = replicates
        self.level = level
        self.seed = seed

    def of(self, id_scores: FloatArray, *ood_sets: FloatArray) -> dict[str, list[float]]:
        """Of each tabled metric, averaged over the OOD sets."""
        found = {}
        for metric in TABLED if self.replicates else ():
            interval = bootstrap_average(
                id_scores,
                ood_sets,
                metric,
                level=self.level,
                replicates=self.replicates,
                seed=self.seed,
            )
            found[metric] = [_percent(interval.low), _percent(interval.high)]
        return found


def cells_of(
    model: str,
    label: str,
    scores: Mapping[str, FloatArray],
    beside: Callable[[str, str], list[dict[str, Any]]] = lambda _ood, _metric: [],
    intervals: Intervals | None = None,
) -> list[dict[str, Any]]:
    """The cells of one row: every OOD set, and their average. Values are per cent."""
    intervals = intervals or Intervals()
    outliers = {ood: values for ood, values in scores.items() if ood != TEST}
    cells = []
    for ood, values in outliers.items():
        measured = evaluate(scores[TEST], values)
        cell: dict[str, Any] = {"model": model, "entry": label, "ood": ood, "samples": len(values)}
        cell |= {metric: _percent(getattr(measured, metric)) for metric in METRICS}
        if bounds := intervals.of(scores[TEST], values):
            cell["intervals"] = bounds
        cells.append(cell)
    average: dict[str, Any] = {"model": model, "entry": label, "ood": AVERAGE}
    average |= {metric: _rounded(np.mean([cell[metric] for cell in cells])) for metric in METRICS}
    if bounds := intervals.of(scores[TEST], *outliers.values()):
        average["intervals"] = bounds
    for cell in (*cells, average):
        found = {metric: beside(cell["ood"], metric) for metric in TABLED}
        cell["published"] = {metric: printed for metric, printed in found.items() if printed}
    return [*cells, average]


def model_facts(subject: Subject) -> dict[str, Any]:
    accuracy = head_accuracy(subject.head, subject.test)
    sets = {FIT: subject.fit, TEST: subject.test, **subject.ood}
    return {
        "backbone": subject.backbone,
        "classes": subject.head.classes,
        "width": subject.head.width,
        "accuracy": None if accuracy is None else _percent(accuracy),
        "samples": {name: len(rows) for name, rows in sets.items()},
        "digests": subject.digests,
        "missing": dict(subject.missing),
    }


def entry_facts(entry: Entry) -> dict[str, Any]:
    detector = entry.build()
    options = {key: value for key, value in detector.options().items() if key != "shaping"}
    record = detector.record
    return {
        "text": entry.text,
        "detector": entry.name,
        "options": options,
        "shaping": None if detector.shaping is None else detector.shaping.spec,
        "paper": f"{record.paper} ({record.year})",
    }


def subject_cells(
    subject: Subject, entries: Sequence[Entry], scores: Scores, intervals: Intervals
) -> list[dict[str, Any]]:
    """The cells of one model, row by row."""
    return [
        cell
        for entry in entries
        if entry.label in scores.values
        for cell in cells_of(
            subject.name,
            entry.label,
            scores.values[entry.label],
            partial(published_beside, subject, entry),
            intervals,
        )
    ]


def ensemble_cells(
    name: str,
    subjects: Sequence[Subject],
    entries: Sequence[Entry],
    summed: Mapping[str, Mapping[str, FloatArray]],
    intervals: Intervals,
) -> list[dict[str, Any]]:
    """The cells of the summed scores."""
    return [
        cell
        for entry in entries
        if entry.label in summed
        for cell in cells_of(
            name,
            entry.label,
            summed[entry.label],
            partial(published_ensemble, subjects, entry),
            intervals,
        )
    ]


def _percent(share: float) -> float:
    return _rounded(100 * share)


def _rounded(value: Any) -> float:
    return round(float(value), _DIGITS)
