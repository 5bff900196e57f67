"""Scale: a row scaled by how much of its sum its largest activations have (Xu et al., ICLR 2024)."""

from __future__ import annotations

from torch import Tensor

from ._base import OfPercentile, growth


class Scale(OfPercentile):
    """z·exp(s1/s2) without pruning, s2 the sum of the largest (100 − p) %.

    The field uses 85, the ORA paper 90.

    >>> th.Scale(percentile=50)(torch.tensor([[1.0, 0.0, 1.0, 0.0]]))  # all is in the upper half: · e
    tensor([[2.7183, 0.0000, 2.7183, 0.0000]])
    """

    name = "scale"
    title = "Scale"

    def __init__(self, *, percentile: float = 85.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        return features * growth(features, features.topk(self._kept(features), dim=1).values)
