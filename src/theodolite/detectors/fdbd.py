"""fDBD: mean distance to the decision boundaries over the distance to the mean (Liu and Qin, ICML 2024).

    s(z) = 1/(C−1) Σ_{c≠p} d_c(z) / ‖z − μ‖,   d_c = (l_p − l_c) / ‖w_p − w_c‖

ID features lie further from the boundaries than OOD features at the same deviation from the ID mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..boundaries import Boundaries
from ..geometry import distance_ratio
from ..metric import check_metric, metric_needs, recall_metric, remember_metric
from ..reference import Reference
from ..shaping import Shaping
from ..statistics import Needs
from .base import Detector
from .registry import register


@register(
    "fdbd",
    title="fDBD",
    paper="Liu and Qin, Fast Decision Boundary based Out-of-Distribution Detector, arXiv:2312.11536",
    year=2024,
    formula="mean_c (l_p − l_c)/‖w_p − w_c‖ / ‖z − μ‖",
)
class FDBD(Detector):
    """Classes that share the predicted one's weights have no boundary and are left out of the mean.

    metric, shrinkage: as in ORA.
    """

    mean: Tensor

    def __init__(
        self, *, metric: str = "euclidean", shrinkage: str = "oas", shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(shaping=shaping)
        check_metric(metric, shrinkage)
        self.metric = metric
        self.shrinkage = shrinkage

    @property
    def needs(self) -> Needs:
        return Needs(mean=True) | metric_needs(self.metric)

    def _fit(self, reference: Reference) -> None:
        self.register_buffer("mean", reference.statistics.moments.mean)
        remember_metric(self, reference)

    def _build(self) -> None:
        assert self.head is not None
        self._metric = recall_metric(self)
        self._boundaries = Boundaries(self.head, self._metric)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        margins = self._boundaries.margins(logits)
        mean_distance = margins.distance.sum(dim=1) / self._boundaries.counts(margins)
        away = torch.sub(features, self.mean.to(features))
        if self._metric is not None:
            away = self._metric.coordinates(away)
        return distance_ratio(mean_distance, away.square_().sum(dim=1))
