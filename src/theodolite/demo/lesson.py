"""What the demo's table teaches, in one line: read off the table, so that it is true whatever came out."""

from __future__ import annotations

from ..benchmarks import RunResult
from ..benchmarks.feature_sets import AVERAGE
from ..detectors import RECOMMENDED
from ..detectors.spec import parse_spec
from ..report.tables import View, printed

MEAN_ORA = "ora?aggregate=mean"


def lesson(result: RunResult, subject: str) -> str:
    """The classifier's own confidence against the recommended score, and ORA's mean against its maximum."""
    metric = next(known for known in result.metrics(subject) if known.name == "fpr95")
    order = View(sort=AVERAGE).rows(result, subject, metric)
    shares = {label: printed(result.cell(subject, label, AVERAGE, metric.name).value) for label in order}
    confidence, ours, largest, mean = (
        parse_spec(text).label for text in ("msp", RECOMMENDED, "ora", MEAN_ORA)
    )
    # Scores that print the same share a place.
    place = 1 + [shares[label] for label in order].index(shares[ours])
    first = f"place {place} of {len(order)}" + (
        "" if place == 1 else f", the first is {order[0]} with {shares[order[0]]} %"
    )
    return (
        f"At a threshold that accepts 95 % of the known, {confidence} lets {shares[confidence]} % of the "
        f"unknown pass, {ours} {shares[ours]} % ({first}); with {result.subjects[subject].classes} classes "
        f"ORA's mean angle lets {shares[mean]} % pass and its largest {shares[largest]} %: "
        f"{_advice(float(shares[mean]), float(shares[largest]))}"
    )


def _advice(mean: float, largest: float) -> str:
    if mean == largest:
        return "here they do the same"
    return (
        "here the mean does better (with few classes, compare both)"
        if mean < largest
        else "here the paper's largest does better"
    )
