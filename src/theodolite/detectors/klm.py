"""KLM: divergence from the nearest of the typical answers (Hendrycks et al., ICML 2022).

    s(z) = −min_k KL(p ‖ d_k),   p = softmax(l),   d_k the mean softmax of ID rows that are answered k

An ID input is answered as ID inputs usually are, doubts included. No labels are needed. The authors take d_k
from validation data: of its own training data a network is surer.

Where it fails: doubt is typical of some classes, and an OOD input that is answered with the same doubt
passes; a class that is seldom answered has a typical answer from few rows.

Cost for N rows, beyond the logits: N·C².
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.once import kept_like
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import below_largest, in_precision, surplus
from ._registry import register


@register(
    "klm",
    title="KLM",
    paper="Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, arXiv:1911.11132",
    year=2022,
    formula="−min_k KL(softmax(l) ‖ d_k), d_k mean softmax of rows answered k",
    aliases=("KL-Matching",),
)
class KLM(Detector):
    """At most 0. A class that no row was answered with has no typical answer, and is left out.

    Nothing is clamped but probabilities below 2e-308, which float64 does not have.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.KLM().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    log_typical: Tensor

    @property
    def needs(self) -> Needs:
        return Needs(softmax_means=True)

    def _fit(self, reference: Reference) -> None:
        softmax = reference.statistics.answers.softmax
        assert softmax is not None
        typical = softmax.means[softmax.counts > 0]
        self.register_buffer("log_typical", typical.clamp_min(torch.finfo(typical.dtype).tiny).log())

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        likely = (below_largest(logits) - surplus(logits)[:, None]).exp()
        nearest = (likely @ kept_like(self.log_typical, logits).T).argmax(dim=1)
        # Two nearly equal numbers are apart by the divergence: once it is known from what, it has float64.
        exact = in_precision(logits, self.log_typical.dtype)
        logs = below_largest(exact) - surplus(exact)[:, None]
        divergence = (logs.exp() * (logs - self.log_typical[nearest])).sum(dim=1)
        return -divergence.to(logits.dtype)
