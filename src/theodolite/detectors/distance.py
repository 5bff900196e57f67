"""Distance: the raw distance to the furthest decision boundary (the small-data appendix of the ORA paper).

    s(z) = max_{c≠p} (l_p − l_c) / ‖w_p − w_c‖

Training pushes ID features deep into their class; the score keeps the scale of the features, unlike an angle.
"""

from __future__ import annotations

from torch import Tensor

from ..boundaries import Boundaries
from ..metric import check_metric, metric_needs, recall_metric, remember_metric
from ..reference import Reference
from ..shaping import Shaping
from ..statistics import Needs
from .base import Detector
from .registry import register


@register(
    "distance",
    title="Distance",
    paper="Demirel et al., Out-of-Distribution Detection with Relative Angles",
    year=2025,
    formula="max_c (l_p − l_c)/‖w_p − w_c‖",
)
class Distance(Detector):
    """In feature units, or in those of the Mahalanobis ``metric`` (``shrinkage`` as in ORA)."""

    def __init__(
        self, *, metric: str = "euclidean", shrinkage: str = "oas", shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(shaping=shaping)
        check_metric(metric, shrinkage)
        self.metric = metric
        self.shrinkage = shrinkage

    @property
    def needs(self) -> Needs:
        return metric_needs(self.metric)

    def _fit(self, reference: Reference) -> None:
        remember_metric(self, reference)

    def _build(self) -> None:
        assert self.head is not None
        self._boundaries = Boundaries(self.head, recall_metric(self))

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return self._boundaries.margins(logits).distance.amax(dim=1)
