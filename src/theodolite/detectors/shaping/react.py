"""ReAct: activations cut off above (Sun et al., NeurIPS 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ...reference.percentiles import ActivationHistogram
from ._base import Learner, checked_percentile


class ReAct(Learner):
    """min(z, t), with t the percentile of all ID activations.

    OOD inputs excite a few units abnormally; cutting them off takes away their confidence.
    The field uses 90, the ORA paper 80.

    >>> shaping = th.ReAct(percentile=75).fit(torch.tensor([[0.0, 1.0, 2.0, 3.0, 9.0]]))
    >>> shaping(torch.tensor([[1.0, 7.0]]))
    tensor([[1., 3.]])
    """

    name = "react"
    title = "ReAct"
    looks = ActivationHistogram
    learnt = ("threshold",)
    threshold: Tensor | None

    def __init__(self, *, percentile: float = 90.0) -> None:
        super().__init__()
        self.percentile = checked_percentile("percentile", percentile)

    def learn(self, look: ActivationHistogram, again: Callable[[], Iterable[Tensor]] | None) -> None:
        """Set the threshold: exactly where the data can be read ``again``, else from the histogram."""
        if again is None:
            value = look.percentile(self.percentile)
        else:
            value = look.exact_percentile(self.percentile, again)
        self.register_buffer("threshold", torch.tensor(value, dtype=torch.float64))

    @property
    def view_key(self) -> str:
        return self.spec if self.threshold is None else f"{self.spec} at {float(self.threshold):.17g}"

    def forward(self, features: Tensor) -> Tensor:
        return torch.minimum(features, self._learnt("threshold").to(features))
