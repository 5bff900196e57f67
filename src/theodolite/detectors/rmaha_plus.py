"""R-Mah+: relative Mahalanobis distance on unit features (Mueller and Hein, Mahalanobis++, ICML 2025).

    s(z) = R-Mah(z / ‖z‖), means and both covariances of unit features too

What Maha+ does for MDS: on the sphere the norm, which differs within a class, no longer spoils the Gaussians.

Where it fails: As R-Mah, it turns upside down where two rows a class leave directions that only the total
covariance sees; a warning says so.

Cost for N rows, beyond the logits: 2·N·D² + N·D·C in float64.
"""

from __future__ import annotations

from ._precision import crowded
from ._registry import register
from .rmds import RMDS


@register(
    "rmaha+",
    title="R-Mah+",
    paper="Mueller and Hein, Mahalanobis++: Improving OOD Detection via Feature Normalization",
    year=2025,
    formula="R-Mah of z/‖z‖",
    aliases=("RMDS++", "RMaha++", "RMDS+", "Relative Mahalanobis++"),
)
class RMahaPlus(RMDS):
    """R-Mah, looking at unit features.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.RMahaPlus().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    unit = True

    def _build(self) -> None:
        self.exact_directions = crowded(self.centre)
