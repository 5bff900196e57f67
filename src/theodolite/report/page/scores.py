"""The scores inside the page: sorted, exact, and small enough to mail.

An array travels as base64 of float32 where that loses nothing (which is the rule: networks compute in
float32), else of float64. The threshold slider therefore counts the very numbers that the metrics counted.
Only sets above `MOST` samples are thinned, to evenly spaced order statistics, and the page says so.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from ...core.arrays import FloatArray
from ..figures.histograms import bin_edges
from .data import ReportData

MOST = 20_000


def embedded(data: ReportData) -> dict[str, Any]:
    """All that the page's script draws from."""
    evaluation = data.evaluation
    return {
        "digits": data.digits,
        "first": data.shown_first,
        "id": data.id_name,
        "ood": evaluation.ood_names,
        "detectors": [
            {
                "name": name,
                "range": [float(edges[0]), float(edges[-1])],
                "id": _packed(evaluation.id_scores[name]),
                "ood": [_packed(evaluation.ood_scores[name][ood]) for ood in evaluation.ood_names],
                "auroc": [evaluation.metrics[name][ood].auroc for ood in evaluation.ood_names],
                "fpr95": [evaluation.metrics[name][ood].fpr95 for ood in evaluation.ood_names],
            }
            for name in evaluation.metrics
            for edges in [bin_edges([evaluation.id_scores[name], *evaluation.ood_scores[name].values()])]
        ],
    }


def thinned_note(data: ReportData) -> str:
    """A sentence where scores were left out; nothing where all are on the page."""
    first = next(iter(data.evaluation.metrics))
    sets = {data.id_name: data.evaluation.id_scores[first], **data.evaluation.ood_scores[first]}
    large = [f"{name} ({len(scores):,})" for name, scores in sets.items() if len(scores) > MOST]
    if not large:
        return ""
    return (
        f"To keep this page small, {', '.join(large)} are drawn from {MOST:,} evenly spaced order "
        f"statistics: the rates here may differ slightly from the tables, which are made from all scores."
    )


def thinned(scores: FloatArray) -> FloatArray:
    """At most `MOST` scores, sorted; each stands for equally many of the sorted whole."""
    ordered = np.sort(scores)
    if len(ordered) <= MOST:
        return ordered
    middles = (np.arange(MOST) + 0.5) * (len(ordered) / MOST)
    return ordered[middles.astype(np.int64)]


def _packed(scores: FloatArray) -> dict[str, str]:
    ordered = thinned(scores)
    with np.errstate(over="ignore"):
        narrow = ordered.astype("<f4")
    kind, values = ("f4", narrow) if np.array_equal(narrow, ordered) else ("f8", ordered.astype("<f8"))
    return {"type": kind, "data": base64.b64encode(values.tobytes()).decode("ascii")}


def script_json(content: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever the names in it are."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
