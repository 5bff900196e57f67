"""MSP: the maximum softmax probability (Hendrycks and Gimpel, ICLR 2017).

    s(z) = max_c softmax(l)_c

The oldest baseline: a classifier tends to be less sure of inputs it was not trained on.

Where it fails: networks are sure of much that they never saw; all that the softmax divides out is lost.

Cost for N rows, beyond the logits: one pass over N×C.
"""

from __future__ import annotations

from torch import Tensor

from ._base import Detector
from ._common import largest, log_sum_exp
from ._registry import register


@register(
    "msp",
    title="MSP",
    paper="Hendrycks and Gimpel, A Baseline for Detecting Misclassified and OOD Examples, arXiv:1610.02136",
    year=2017,
    formula="max_c softmax(l)_c",
)
class MSP(Detector):
    """Probabilities in (0, 1].

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.MSP().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return (largest(logits) - log_sum_exp(logits)).exp()
