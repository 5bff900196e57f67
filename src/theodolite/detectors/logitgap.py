"""LogitGap: how far the largest logit is above the others (Liang et al., NeurIPS 2025).

    s(z) = l_(1) − mean(l_(2), …, l_(N+1)),   l_(1) ≥ l_(2) ≥ … the logits by size

ID inputs raise one logit and lower the rest; OOD inputs have flat logits. Far down the list are classes that
say nothing, so the mean may go over the N next ones alone.

Where it fails: it sees what the logits show: an OOD input that is answered clearly has the gap of an ID
input.

Cost for N rows, beyond the logits: one pass over N×C, and a selection where ``top`` is set.
"""

from __future__ import annotations

from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import fixed
from ._base import Detector
from ._common import below_largest
from ._registry import register
from .shaping import Shaping


@register(
    "logitgap",
    title="LogitGap",
    paper="Liang et al., Revisiting Logit Distributions for Reliable OOD Detection, arXiv:2510.20134",
    year=2025,
    formula="l_(1) − mean of the N next logits",
)
class LogitGap(Detector):
    """top: N, how many logits after the largest are averaged; all by default.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.LogitGap().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(self, *, top: int | None = None, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if top is not None and top < 1:
            raise InputError(f"top must be at least 1, got {top}")
        self.top = top

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        below = below_largest(logits)
        others = fixed(logits.shape[1]) - 1
        count = others if self.top is None else min(self.top, others)
        # The largest is 0 below itself.
        sums = below.sum(dim=1) if count == others else below.topk(count + 1, dim=1).values.sum(dim=1)
        return -sums / count
