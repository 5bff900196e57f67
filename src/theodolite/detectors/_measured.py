"""What scores that measure lengths have in common: Euclidean ones, or those of the ID data's own metric."""

from __future__ import annotations

from torch import Tensor

from ..geometry.covariance import total_axes, total_covariance
from ..geometry.inner_product import Mahalanobis, Spectrum, check_metric, spectrum
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from .shaping import Shaping


class Measured(Detector):
    """A score with the options ``metric`` and ``shrinkage``; the covariance is kept in buffers."""

    metric_directions: Tensor
    metric_variances: Tensor
    metric_floor: Tensor

    def __init__(
        self, *, metric: str = "euclidean", shrinkage: str = "oas", shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(shaping=shaping)
        check_metric(metric, shrinkage)
        self.metric = metric
        self.shrinkage = shrinkage
        self._metric: Mahalanobis | None = None

    @property
    def needs(self) -> Needs:
        return Needs() if self.metric == "euclidean" else Needs(mean=True, scatter=True)

    def _fit(self, reference: Reference) -> None:
        if self.metric == "euclidean":
            return
        parts = reference.derived(
            f"spectrum, shrinkage {self.shrinkage}",
            lambda: spectrum(
                total_covariance(reference),
                reference.count,
                shrinkage=self.shrinkage,
                axes=total_axes(reference),
            ),
        )
        for name, tensor in parts._asdict().items():
            self.register_buffer(f"metric_{name}", tensor)

    def _build(self) -> None:
        if self.metric != "euclidean":
            # A file may keep them in half precision (the ready-made guard); they are worked with in float64.
            self.metric_directions = self.metric_directions.double()
            self._metric = Mahalanobis(
                Spectrum(self.metric_directions, self.metric_variances, self.metric_floor)
            )

    def _coordinates(self, away: Tensor) -> Tensor:
        """Differences of features, such that their Euclidean length is their length in the metric."""
        return away if self._metric is None else self._metric.coordinates(away)
