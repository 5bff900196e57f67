"""NCI: how far the centred feature points along its class's weights, plus its size (Liu and Qin, CVPR 2025).

    s(z) = ⟨w_p, z − μ⟩ / ‖z − μ‖ + α·‖z‖₁

Under neural collapse centred ID features align with the weights of their class, and OOD features lie nearer
to the origin.

Where it fails: α weighs a length against a cosine, and lengths have the scale of the network: a setting of
one may drown the other on the next.

Cost for N rows, beyond the logits: two passes over N×D.
"""

from __future__ import annotations

from torch import Tensor

from ..core.once import kept
from ..geometry.deviation import away, length
from ..geometry.triangle import over_norm
from ..reference.head import Head
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._precision import blurred, reach, unresolved
from ._registry import register
from .shaping import Shaping


@register(
    "nci",
    title="NCI",
    paper="Liu and Qin, Detecting Out-of-Distribution through the Lens of Neural Collapse, arXiv:2311.01479",
    year=2025,
    formula="⟨w_p, z − μ⟩/‖z − μ‖ + α·‖z‖₁",
)
class NCI(Detector):
    """alpha: weight of the L1 norm. The first term is 0 where z = μ.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.NCI().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    mean: Tensor

    def __init__(self, *, alpha: float = 1e-4, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        self.alpha = alpha

    @property
    def needs(self) -> Needs:
        return Needs(mean=True)

    def _fit(self, reference: Reference) -> None:
        self.register_buffer("mean", reference.statistics.moments.mean)

    def _build(self) -> None:
        self._reach = reach(self.mean, self.head)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        assert self.head is not None
        own, predicted = logits.max(dim=1)
        # ⟨w_p, z − μ⟩ is the difference of two logits: no product of features and weights is needed.
        along = own - kept(_logits_of, self.head, self.mean).to(features)[predicted]
        norm = length(away(features, self.mean))
        scores = over_norm(along, norm) + self.alpha * features.abs().sum(dim=1)
        return unresolved(scores, blurred(norm, self._reach))


def _logits_of(head: Head, feature: Tensor) -> Tensor:
    return head.logits(feature[None])[0]
