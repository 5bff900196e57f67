"""MaxLogit: the largest logit (Hendrycks et al., ICML 2022).

    s(z) = max_c l_c

Unlike a probability, the logit keeps the strength of the evidence.

Where it fails: As Energy, of which it is the largest term: large OOD features raise it too, and what lies
across the rows of W is not seen.

Cost for N rows, beyond the logits: one pass over N×C.
"""

from __future__ import annotations

from torch import Tensor

from ._base import Detector
from ._common import largest
from ._registry import register


@register(
    "maxlogit",
    title="MaxLogit",
    paper="Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, arXiv:1911.11132",
    year=2022,
    formula="max_c l_c",
    aliases=("MaxL", "MLS"),
)
class MaxLogit(Detector):
    """In logit units.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.MaxLogit().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return largest(logits)
