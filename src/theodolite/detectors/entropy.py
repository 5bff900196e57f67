"""Entropy of the softmax, counted negatively.

    s(z) = Σ_c p_c·log p_c,   p = softmax(l)

A classifier that knows an input puts its probability on few classes. Nothing is clamped: a certain answer
keeps the digits of its small entropy.

Where it fails: a network that is sure of everything is sure of OOD inputs too: strangeness that leaves the
logits apart is not seen.

Cost for N rows, beyond the logits: a few passes over N×C.
"""

from __future__ import annotations

from torch import Tensor

from ._base import Detector
from ._common import below_largest, surplus
from ._registry import register


@register(
    "entropy",
    title="Entropy",
    paper="Chan et al., Entropy Maximization and Meta Classification for OOD Detection, arXiv:2012.06575",
    year=2021,
    formula="Σ_c p_c·log p_c",
)
class Entropy(Detector):
    """From −log C, where all classes are as likely, to 0.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.Entropy().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        below, over = below_largest(logits), surplus(logits)
        # Σ p·(l − max l) − log Σ exp(l − max l): both are negative, and nothing cancels.
        return ((below - over[:, None]).exp() * below).sum(dim=1) - over
