"""How well scores separate ID from OOD. Scores are higher for ID; values are fractions in [0, 1].

A metric is one record: its name in files, its title in tables, which way is better, what it means, and the
function of a `Curve` that computes it. Tables, pages, CSV and JSON know metrics by these records alone; one
of your own joins them with `register_metric`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..core.arrays import ArrayLike, as_labels, as_matrix
from ..core.errors import InputError, did_you_mean
from . import curve
from .curve import Counts, Curve, check_share

# Values by the name of their metric.
MetricValues: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class Metric:
    """``tabled`` metrics have a table of their own wherever results are printed; files have all."""

    name: str
    title: str
    lower_is_better: bool
    meaning: str
    of: Callable[[Curve], Counts]
    tabled: bool = False

    @property
    def arrow(self) -> str:
        return "↓" if self.lower_is_better else "↑"

    def best(self, values: Iterable[float]) -> float:
        return (min if self.lower_is_better else max)(values)


_metrics: dict[str, Metric] = {}
# Entries that stand beside the metrics in the files of results.
RESERVED = ("model", "entry", "ood", "samples", "intervals", "published", "over", "repeats", "std")


def register_metric(new: Metric) -> Metric:
    """Enter a metric; it is computed in every evaluation from then on."""
    if new.name in RESERVED:
        raise InputError(
            f"a metric cannot be called {new.name!r}: results have an entry of that name, choose another"
        )
    if _metrics.setdefault(new.name, new) != new:
        raise InputError(f"a metric is called {new.name!r} already: choose another name")
    return new


FPR95 = register_metric(
    Metric("fpr95", "FPR95", True, "share of OOD accepted when 95 % of ID is", curve.fpr, tabled=True)
)
AUROC = register_metric(
    Metric(
        "auroc",
        "AUROC",
        False,
        "chance that an ID sample scores above an OOD sample, ties counting half",
        curve.auroc,
        tabled=True,
    )
)
AUPR_IN = register_metric(
    Metric("aupr_in", "AUPR-IN", False, "area under precision over recall, ID positive", curve.aupr)
)
AUPR_OUT = register_metric(
    Metric(
        "aupr_out",
        "AUPR-OUT",
        False,
        "area under precision over recall, OOD positive",
        lambda seen: curve.aupr(seen.reversed()),
    )
)
FPR95_OOD_POSITIVE = register_metric(
    Metric(
        "fpr95_ood_positive",
        "FPR95 (OOD positive)",
        True,
        "the field's other FPR95, with OOD as the positive class: share of ID rejected when 95 % of OOD is. "
        "It is another number than FPR95, and not to be compared with it",
        lambda seen: curve.fpr(seen.reversed()),
    )
)


def list_metrics(*, tabled: bool = False) -> list[Metric]:
    """All metrics, or those that have tables, in the order they are shown."""
    return [metric for metric in _metrics.values() if metric.tabled or not tabled]


def metric(name: str) -> Metric:
    """The metric of a name."""
    if name not in _metrics:
        raise InputError(
            f"no metric is called {name!r}{did_you_mean(name, _metrics)} Known: {', '.join(_metrics)}"
        )
    return _metrics[name]


def evaluate(id_scores: ArrayLike, ood_scores: ArrayLike) -> MetricValues:
    """All metrics by name, from one sort.

    >>> values = th.evaluate(np.array([3.0, 2.0, 4.0]), np.array([1.0, 2.5]))
    >>> round(values["auroc"], 3), values["fpr95"]
    (0.833, 0.5)
    """
    seen = Curve.of(id_scores, ood_scores)
    return {name: float(known.of(seen)) for name, known in _metrics.items()}


def fpr_at_tpr(id_scores: ArrayLike, ood_scores: ArrayLike, tpr: float = curve.TPR) -> float:
    """The paper's FPR95: share of OOD accepted at the highest threshold that accepts ``tpr`` of ID.

    >>> th.fpr_at_tpr(np.arange(100.0), np.array([-1.0, 2.0, 50.0, 60.0]))  # 95 of 100 ID scores are ≥ 5
    0.5
    """
    return float(curve.fpr(Curve.of(id_scores, ood_scores), check_share(tpr, "tpr")))


def fpr_at_tpr_ood_positive(id_scores: ArrayLike, ood_scores: ArrayLike, tpr: float = curve.TPR) -> float:
    """The field's other FPR95: share of ID rejected at the threshold that rejects ``tpr`` of OOD."""
    return float(curve.fpr(Curve.of(id_scores, ood_scores).reversed(), check_share(tpr, "tpr")))


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Chance that a random ID sample scores above a random OOD sample, ties counting half.

    >>> th.auroc(np.array([3.0, 2.0, 4.0]), np.array([1.0, 2.5]))  # five of six pairs are in order
    0.8333...
    """
    return float(AUROC.of(Curve.of(id_scores, ood_scores)))


def aupr_in(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the precision-recall curve with ID as the positive class."""
    return float(AUPR_IN.of(Curve.of(id_scores, ood_scores)))


def aupr_out(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Area under the precision-recall curve with OOD as the positive class."""
    return float(AUPR_OUT.of(Curve.of(id_scores, ood_scores)))


def accuracy(logits: ArrayLike, labels: ArrayLike) -> float:
    """Share of ID samples whose largest logit is at their label."""
    outputs = as_matrix(logits, "logits", None, "")
    targets = as_labels(labels, *outputs.shape)
    return float((outputs.argmax(dim=1).cpu() == targets.cpu()).double().mean())
