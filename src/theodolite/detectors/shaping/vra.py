"""VRA: small activations removed, large ones cut off (Xu et al., NeurIPS 2023).

    z < low → 0,   z > high → high,   the rest as it is

What is abnormally low or abnormally high is what OOD inputs excite. Three methods of the field have this
name: the authors' (`VRA`, thresholds of each unit, and `VRAAt`, the same thresholds for all), OpenOOD's
(`VRAClip`) and pytorch-ood's (`VRAClipUnits`), which both raise what is low instead of removing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ...core.errors import InputError
from ...reference.percentiles import ActivationHistogram
from ...reference.unit_percentiles import UnitHistograms
from ._base import Learner, Shaping, checked_percentile


class _Between(Learner):
    """A shaping with a low and a high threshold at two percentiles of ID activations."""

    learnt = ("low", "high")
    low: Tensor | None
    high: Tensor | None

    def __init__(self, *, lower: float, upper: float) -> None:
        super().__init__()
        self.lower = checked_percentile("lower", lower)
        self.upper = checked_percentile("upper", upper)
        if lower > upper:
            raise InputError(f"lower must be at most upper, got {lower} and {upper}")


class _OfUnits(_Between):
    """Thresholds of each unit: percentiles of its own activations."""

    looks = UnitHistograms

    def learn(self, look: UnitHistograms, again: Callable[[], Iterable[Tensor]] | None) -> None:
        """Set the thresholds: exactly where the data can be read ``again``, else from the histograms."""
        for name, percent in (("low", self.lower), ("high", self.upper)):
            found = look.percentiles(percent) if again is None else look.exact_percentiles(percent, again)
            self.register_buffer(name, found)

    def _thresholds(self, features: Tensor) -> tuple[Tensor, Tensor]:
        low, high = self._learnt("low", features), self._learnt("high", features)
        return low.to(features), high.to(features)


class VRA(_OfUnits):
    """The authors' form: thresholds at percentiles of each unit.

    They take 60 and 90 on CIFAR-10, 60 and 95 on CIFAR-100, and on ImageNet fixed thresholds (`VRAAt`).

    >>> shaping = th.VRA(lower=25, upper=75).fit(torch.arange(5.0)[:, None])
    >>> shaping(torch.tensor([[0.5], [2.0], [9.0]])).flatten()
    tensor([0., 2., 3.])
    """

    name = "vra"
    title = "VRA"

    def __init__(self, *, lower: float = 60.0, upper: float = 90.0) -> None:
        super().__init__(lower=lower, upper=upper)

    def forward(self, features: Tensor) -> Tensor:
        return _rectified(features, *self._thresholds(features))


class VRAAt(Shaping):
    """The authors' form with the same two thresholds for all units, which it does not learn.

    They take 0.5 and 1 with a ResNet-50 on ImageNet.

    >>> th.VRAAt(low=0.5, high=1.0)(torch.tensor([[0.2, 0.7, 9.0]]))
    tensor([[0.0000, 0.7000, 1.0000]])
    """

    name = "vra-at"
    title = "VRA at thresholds"

    def __init__(self, *, low: float = 0.5, high: float = 1.0) -> None:
        super().__init__()
        if low > high:
            raise InputError(f"low must be at most high, got {low} and {high}")
        self.low = low
        self.high = high

    def forward(self, features: Tensor) -> Tensor:
        return _rectified(features, features.new_tensor(self.low), features.new_tensor(self.high))


class VRAClip(_Between):
    """OpenOOD's form: min(max(z, low), high) at percentiles of all activations of all units.

    >>> shaping = th.VRAClip(lower=25, upper=75).fit(torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0]]))
    >>> shaping(torch.tensor([[0.5, 2.0, 9.0]]))
    tensor([[1., 2., 3.]])
    """

    name = "vra-clip"
    title = "VRA (clipped)"
    looks = ActivationHistogram

    def __init__(self, *, lower: float = 10.0, upper: float = 90.0) -> None:
        super().__init__(lower=lower, upper=upper)

    def learn(self, look: ActivationHistogram, again: Callable[[], Iterable[Tensor]] | None) -> None:
        for name, percent in (("low", self.lower), ("high", self.upper)):
            found = look.percentile(percent) if again is None else look.exact_percentile(percent, again)
            self.register_buffer(name, torch.tensor(found, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        low, high = self._learnt("low"), self._learnt("high")
        return torch.minimum(torch.maximum(features, low.to(features)), high.to(features))


class VRAClipUnits(_OfUnits):
    """pytorch-ood's form: min(max(z, low), high) at percentiles of each unit.

    >>> shaping = th.VRAClipUnits(lower=25, upper=75).fit(torch.arange(5.0)[:, None])
    >>> shaping(torch.tensor([[0.5], [2.0], [9.0]])).flatten()
    tensor([1., 2., 3.])
    """

    name = "vra-clip-units"
    title = "VRA (clipped by unit)"

    def __init__(self, *, lower: float = 1.0, upper: float = 99.0) -> None:
        super().__init__(lower=lower, upper=upper)

    def forward(self, features: Tensor) -> Tensor:
        low, high = self._thresholds(features)
        return torch.minimum(torch.maximum(features, low), high)


def _rectified(features: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.where(features < low, torch.zeros_like(features), features), high)
