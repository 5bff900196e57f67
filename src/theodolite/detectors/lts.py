"""LTS: energy of logits that are scaled by how even the activations are (Djurisic et al. 2024).

    s(z) = log Σ_c exp(S·l_c),   S = (Σ_d relu(z_d) / Σ_{d in the k largest} relu(z_d))²

k is (100 − p) % of the width. The logits are scaled, not the features, so the answer stays as it was. ID
inputs have their activations spread over more units, and grow more.

Where it fails: it wants activations behind a ReLU, many of them zero; where ID and OOD rows are equally even,
S is one factor for all and only the energy is left.

Cost for N rows, beyond the logits: one pass over N×C, and a selection of the k largest of N×D.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import fixed
from ._base import Detector
from ._registry import register
from .shaping import Shaping


@register(
    "lts",
    title="LTS",
    paper="Djurisic et al., Logit Scaling for Out-of-Distribution Detection, arXiv:2409.01175",
    year=2024,
    formula="log Σ_c exp(S·l_c), S = (Σ relu z / Σ_{top-k} relu z)²",
)
class LTS(Detector):
    """percentile: p; the k = D − round(D·p/100) largest activations, at least one, are what S compares with.

    A row without positive activations has S = 1.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.LTS().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.eye(8)[5]]))
    >>> bool(known > strange)
    True
    """

    def __init__(self, *, percentile: float = 95.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not 0 <= percentile <= 100:
            raise InputError(f"percentile must lie in 0..100, got {percentile}")
        self.percentile = percentile

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        active = features.relu()
        width = fixed(features.shape[1])
        kept = max(1, width - round(width * self.percentile / 100))
        part = active.topk(kept, dim=1).values.sum(dim=1)
        scale = torch.where(part > 0, active.sum(dim=1) / part, torch.ones_like(part)).square()
        return torch.logsumexp(scale[:, None] * logits, dim=1)
