"""R-Cos: softmax of the cosines to the class means (Bitterwolf et al., ICML 2023).

    s(z) = max_c softmax_c(cos(z, μ_c) / T)

Relative to the other classes: a feature close to all means alike is as suspect as one close to none.

Where it fails: at T = 1 cosines hardly differ under a softmax of many classes: the score is nearly flat.

Cost for N rows, beyond the logits: N·D·C.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ._registry import register
from .pcos import PCos
from .shaping import Shaping


@register(
    "rcos",
    title="R-Cos",
    paper="Bitterwolf et al., In or Out? Fixing ImageNet OOD Detection Evaluation, arXiv:2306.00826",
    year=2023,
    formula="max_c softmax_c(cos(z, μ_c) / T)",
)
class RCos(PCos):
    """Probabilities at ``temperature`` T.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.RCos().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(self, *, temperature: float = 1.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        self.temperature = temperature

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        cosines = self._cosines(features) / self.temperature
        return (cosines.amax(dim=1) - torch.logsumexp(cosines, dim=1)).exp()
