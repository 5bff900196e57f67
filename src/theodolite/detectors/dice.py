"""DICE: energy from the weights that matter (Sun and Li, ECCV 2022).

    s(z) = log Σ_c exp((W∘M)z + b)_c,   M_cd = [W_cd·μ_d > the p-th percentile of all W_cd·μ_d]

Weights that contribute little to ID logits are noise there, and raise logits of OOD inputs.

Where it fails: the percentile is a setting that does not travel: the weights that matter are few on one
network and many on another.

Cost for N rows, beyond the logits: N·D·C, for logits of its own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.once import kept_like
from ..reference.head import Head
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._registry import register
from .shaping import Shaping


@register(
    "dice",
    title="DICE",
    paper="Sun and Li, DICE: Leveraging Sparsification for Out-of-Distribution Detection, arXiv:2111.09805",
    year=2022,
    formula="log Σ_c exp((W∘M)z + b)_c, M the weights of the largest W_cd·μ_d",
)
class DICE(Detector):
    """percentile: p, weights in a hundred that are set to 0; the authors take 90 (CIFAR) and 70 (ImageNet).

    Logits that are given are those of all weights, and are not looked at.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.DICE(percentile=50).fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    reads_head = True
    mean: Tensor
    threshold: Tensor

    def __init__(self, *, percentile: float = 90.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not 0 <= percentile < 100:
            raise InputError(f"percentile must lie in 0..100, below 100, got {percentile}")
        self.percentile = percentile

    @property
    def needs(self) -> Needs:
        return Needs(mean=True)

    def _fit(self, reference: Reference) -> None:
        mean = reference.statistics.moments.mean
        shares = _contributions(_required(reference.head), mean).flatten()
        # Above the percentile, which lies between this one and the next, is above this one.
        rank = math.floor(self.percentile / 100 * (len(shares) - 1))
        self.register_buffer("mean", mean)
        self.register_buffer("threshold", shares.kthvalue(rank + 1).values)

    def _build(self) -> None:
        head = _required(self.head)
        kept = _contributions(head, self.mean) > self.threshold
        self._weight = head.weight.masked_fill(~kept, 0)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        assert self.head is not None
        weight, bias = kept_like(self._weight, features), kept_like(self.head.bias, features)
        return torch.logsumexp(torch.addmm(bias, features, weight.T), dim=1)


def _required(head: Head | None) -> Head:
    if head is None:
        raise InputError("DICE needs a head: pass head=Head(weight, bias)")
    return head


def _contributions(head: Head, mean: Tensor) -> Tensor:
    """W_cd·μ_d in float64, the same to the bit whenever it is asked for."""
    return head.weight.to(mean) * mean
