"""Maha+: MDS on features of unit length (Mueller and Hein, Mahalanobis++, ICML 2025).

    s(z) = MDS(z / ‖z‖), means and covariance of unit features too

Feature norms vary strongly within a class and break the Gaussian model; on the sphere it fits better.

Where it fails: with few rows a class the covariance within classes is poor, and what it does not span goes
unseen; lengths, which it leaves out, sometimes tell OOD rows best.

Cost for N rows, beyond the logits: N·D² + N·D·C in float64.
"""

from __future__ import annotations

from ._precision import crowded
from ._registry import register
from .mds import MDS


@register(
    "maha+",
    title="Maha+",
    paper="Mueller and Hein, Mahalanobis++: Improving OOD Detection via Feature Normalization",
    year=2025,
    formula="MDS of z/‖z‖",
    aliases=("Mahalanobis++", "MDS++", "Maha++"),
)
class MahaPlus(MDS):
    """MDS, looking at unit features.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.MahaPlus().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    unit = True

    def _build(self) -> None:
        self.exact_directions = crowded(self.centre)
