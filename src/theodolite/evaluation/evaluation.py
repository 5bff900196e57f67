"""Scores of several detectors on ID and OOD sets, and the metrics of every pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..core.arrays import ArrayLike, FloatArray, as_float, as_scores
from ..detectors import Detector
from ..reference.head import Head
from ..reference.reference import Batch
from .metrics import Metrics, evaluate


@dataclass(frozen=True)
class Evaluation:
    """Scores by detector and data set, and what they are worth."""

    id_scores: Mapping[str, FloatArray]
    ood_scores: Mapping[str, Mapping[str, FloatArray]]
    metrics: Mapping[str, Mapping[str, Metrics]]

    @property
    def ood_names(self) -> list[str]:
        return list(next(iter(self.metrics.values())))

    def average(self, detector: str, metric: str) -> float:
        """Mean of a metric over the OOD sets."""
        return float(np.mean([getattr(cell, metric) for cell in self.metrics[detector].values()]))


def head_accuracy(head: Head, batches: Iterable[Batch], *, rows: int | None = None) -> float | None:
    """Share of labels that a head predicts, over all batches or the first ``rows``; None without labels."""
    right = seen = 0
    for features, labels, _ in batches:
        if labels is None or (rows is not None and seen >= rows):
            break
        known = labels >= 0
        right += int((head(as_float(features)).argmax(dim=1) == labels).sum())
        seen += int(known.sum())
    return right / seen if seen else None


def evaluate_detectors(
    detectors: Mapping[str, Detector],
    id_features: ArrayLike,
    ood_features: Mapping[str, ArrayLike],
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Score held-out ID features and every OOD set with every fitted detector."""
    id_scores: dict[str, FloatArray] = {}
    ood_scores: dict[str, dict[str, FloatArray]] = {}
    metrics: dict[str, dict[str, Metrics]] = {}
    for name, detector in detectors.items():
        id_scores[name] = as_scores(detector.score(id_features), "scores")
        ood_scores[name] = {
            ood: as_scores(detector.score(rows), "scores") for ood, rows in ood_features.items()
        }
        metrics[name] = {ood: evaluate(id_scores[name], scores) for ood, scores in ood_scores[name].items()}
        progress(name)
    return Evaluation(id_scores, ood_scores, metrics)
