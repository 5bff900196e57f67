"""The scores inside the page: sorted, exact, and small enough to mail.

An array travels as base64 of float32 where that loses nothing (which is the rule: networks compute in
float32), else of float64. The threshold slider therefore counts the very numbers that the metrics counted.
Only sets above `MOST` samples are thinned, to evenly spaced order statistics, and the page says so.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np

from ...core.arrays import FloatArray
from ...core.plain import JsonObject
from ...evaluation import Evaluation, Metric
from ..figures.histograms import bin_edges
from ..tables import printed
from .page import Page

MOST = 20_000


@dataclass(frozen=True)
class Explorer:
    """The part of the page where a threshold is tried out."""

    detectors: list[str]
    sets: list[str]
    chosen: str
    metrics: list[Metric]
    note: str
    content: JsonObject


def explorer(page: Page) -> Explorer | None:
    """None where the result has no scores any more."""
    scores = page.evaluation
    if scores is None:
        return None
    return Explorer(
        detectors=page.detectors,
        sets=page.ood_names,
        chosen=page.shown_first,
        metrics=page.tabled,
        note=_thinned_note(page),
        content={
            "ood": page.ood_names,
            "detectors": [_of_detector(page, scores, name) for name in page.detectors],
        },
    )


def thinned(scores: FloatArray) -> FloatArray:
    """At most `MOST` scores, sorted; each stands for equally many of the sorted whole."""
    ordered = np.sort(scores)
    if len(ordered) <= MOST:
        return ordered
    middles = (np.arange(MOST) + 0.5) * (len(ordered) / MOST)
    return ordered[middles.astype(np.int64)]


def _of_detector(page: Page, scores: Evaluation, name: str) -> JsonObject:
    """Its scores, the axis they are drawn on, and its tabled metrics as printed, a set after the other."""
    known, strange = scores.id_scores[name], scores.ood_scores[name]
    edges = bin_edges([known, *strange.values()])
    return {
        "name": name,
        "range": [float(edges[0]), float(edges[-1])],
        "id": _packed(known),
        "ood": [_packed(strange[ood]) for ood in page.ood_names],
        "metrics": {
            metric.name: [
                printed(page.result.cell(page.subject, name, ood, metric.name).value)
                for ood in page.ood_names
            ]
            for metric in page.tabled
        },
    }


def _packed(scores: FloatArray) -> JsonObject:
    ordered = thinned(scores)
    with np.errstate(over="ignore"):
        narrow = ordered.astype("<f4")
    kind, values = ("f4", narrow) if np.array_equal(narrow, ordered) else ("f8", ordered.astype("<f8"))
    return {"type": kind, "data": base64.b64encode(values.tobytes()).decode("ascii")}


def _thinned_note(page: Page) -> str:
    """A sentence where scores were left out; nothing where all are on the page."""
    sets = [(page.id_name, page.id_samples or 0), *page.ood_samples.items()]
    large = [f"{name} ({count:,})" for name, count in sets if count > MOST]
    if not large:
        return ""
    return (
        f"To keep this page small, {', '.join(large)} are drawn from {MOST:,} evenly spaced order "
        f"statistics: the rates here may differ slightly from the tables, which are made from all scores."
    )
