"""ASH: the smaller activations of a row removed, in three variants (Djurisic et al., ICLR 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from ._base import OfPercentile, growth


class ASHP(OfPercentile):
    """Keep the largest (100 − p) % of a row's activations, the rest become 0.

    >>> th.ASHP(percentile=50)(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[0., 0., 3., 4.]])
    """

    name = "ash-p"
    title = "ASH-P"

    def __init__(self, *, percentile: float = 60.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        values, places = features.topk(self._kept(features), dim=1)
        return torch.zeros_like(features).scatter_(1, places, values)


class ASHB(OfPercentile):
    """As ASH-P, but the surviving activations share the row's former sum equally.

    >>> th.ASHB(percentile=50)(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    tensor([[0., 0., 5., 5.]])
    """

    name = "ash-b"
    title = "ASH-B"

    def __init__(self, *, percentile: float = 65.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        kept = self._kept(features)
        places = features.topk(kept, dim=1).indices
        share = features.sum(dim=1, keepdim=True) / kept
        return torch.zeros_like(features).scatter_(1, places, share.expand(-1, kept))


class ASHS(OfPercentile):
    """As ASH-P, then scaled by exp(s1/s2), the row's sums before and after.

    The field uses 90 on ImageNet, the ORA paper 35.

    >>> th.ASHS(percentile=50)(torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    tensor([[0.0000, 0.0000, 2.7183, 2.7183]])
    """

    name = "ash-s"
    title = "ASH-S"

    def __init__(self, *, percentile: float = 90.0) -> None:
        super().__init__(percentile=percentile)

    def forward(self, features: Tensor) -> Tensor:
        values, places = features.topk(self._kept(features), dim=1)
        values = values * growth(features, values)
        return torch.zeros_like(features).scatter_(1, places, values)
