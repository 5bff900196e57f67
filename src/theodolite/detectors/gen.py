"""GEN: generalised entropy of the largest probabilities (Liu et al., CVPR 2023).

    s(z) = −Σ_{c in the M largest} p_c^γ·(1 − p_c)^γ,   p = softmax(l)

With a small γ a little doubt weighs nearly as much as a lot: ID inputs leave no other class any probability.

Where it fails: it reads nothing but probabilities: where the network is sure of an OOD input, so is GEN.

Cost for N rows, beyond the logits: a few passes over N×C, and a selection of the M largest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import fixed
from ._base import Detector
from ._common import below_largest, log_odds, surplus
from ._registry import register
from .shaping import Shaping


@register(
    "gen",
    title="GEN",
    paper="Liu et al., GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, CVPR 2023",
    year=2023,
    formula="−Σ_{M largest} p^γ·(1 − p)^γ",
)
class GEN(Detector):
    """gamma: γ. top: M, how many of the largest probabilities count; all where there are fewer classes.

    Worked from logarithms without a clamp: 1 − p of a certain answer is the sum of the others.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.GEN().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(self, *, gamma: float = 0.1, top: int = 100, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not gamma > 0:
            raise InputError(f"gamma must be positive, got {gamma}")
        if top < 1:
            raise InputError(f"top must be at least 1, got {top}")
        self.gamma = gamma
        self.top = top

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        over = surplus(logits)
        first = (self.gamma * (log_odds(logits) - 2 * over)).exp()
        count = min(self.top, fixed(logits.shape[1]))
        # At most 1/2 each: one of two equal ones counts as the first.
        logs = below_largest(logits).topk(count, dim=1).values[:, 1:] - over[:, None]
        return -(first + (self.gamma * (logs + torch.log1p(-logs.exp()))).exp().sum(dim=1))
