"""Scores of several detectors on ID and OOD sets, and the metrics of every pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..core.arrays import FloatArray
from .metrics import MetricValues, evaluate

ScoresBySet: TypeAlias = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Evaluation:
    """Scores by detector and data set, and what they are worth.

    >>> scores = {"mine": {"id_test": np.array([2.0, 3.0]), "fog": np.array([1.0])}}
    >>> evaluation = th.result_of_scores(scores, title="Mine").evaluations["model"]
    >>> evaluation.metrics["mine"]["fog"]["auroc"]
    1.0
    """

    id_scores: Mapping[str, FloatArray]
    ood_scores: Mapping[str, ScoresBySet]
    metrics: Mapping[str, Mapping[str, MetricValues]]

    @classmethod
    def of(cls, scores: Mapping[str, ScoresBySet], *, known: str) -> Evaluation:
        """Measure scores by detector and set; the set called ``known`` is ID, the others are OOD."""
        ood = {
            label: {name: values for name, values in sets.items() if name != known}
            for label, sets in scores.items()
        }
        return cls(
            {label: sets[known] for label, sets in scores.items()},
            ood,
            {
                label: {name: evaluate(scores[label][known], values) for name, values in sets.items()}
                for label, sets in ood.items()
            },
        )

    @property
    def ood_names(self) -> list[str]:
        return list(next(iter(self.metrics.values())))

    def average(self, detector: str, metric: str) -> float:
        """Mean of a metric over the OOD sets."""
        return float(np.mean([cell[metric] for cell in self.metrics[detector].values()]))
