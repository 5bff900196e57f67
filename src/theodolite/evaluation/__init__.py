"""How well scores tell ID from OOD: metrics, their intervals, evaluations of several scores at once."""

from .accuracy import head_accuracy
from .bootstrap import Interval, bootstrap, bootstrap_average
from .curve import Curve, threshold_at_tpr
from .evaluation import Evaluation
from .metrics import (
    Metric,
    MetricValues,
    accuracy,
    aupr_in,
    aupr_out,
    auroc,
    evaluate,
    fpr_at_tpr,
    fpr_at_tpr_ood_positive,
    list_metrics,
    metric,
    register_metric,
)
from .paired import Difference, Differences, holm, paired_bootstrap, paired_differences

__all__ = [
    "Curve",
    "Difference",
    "Differences",
    "Evaluation",
    "Interval",
    "Metric",
    "MetricValues",
    "accuracy",
    "aupr_in",
    "aupr_out",
    "auroc",
    "bootstrap",
    "bootstrap_average",
    "evaluate",
    "fpr_at_tpr",
    "fpr_at_tpr_ood_positive",
    "head_accuracy",
    "holm",
    "list_metrics",
    "metric",
    "paired_bootstrap",
    "paired_differences",
    "register_metric",
    "threshold_at_tpr",
]
