"""R-Mah: relative Mahalanobis distance (Ren et al. 2021).

    s(z) = −min_c [ MD_c(z) − MD_0(z) ]

MD_c is MDS's squared distance to class c, MD_0 the squared distance to the global mean with the total
covariance. What a feature shares with all ID data cancels; what is left speaks of classes.

Where it fails: what is strange to all classes alike cancels as well, and far OOD may be told less well than
near OOD. Two rows a class turn it upside down; a warning says so.

Cost for N rows, beyond the logits: 2·N·D² + N·D·C in float64.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from ..core.errors import FittingWarning
from ..geometry.covariance import total_axes, whitener
from ..geometry.deviation import away
from ..reference.reference import Reference
from ._common import in_precision
from ._registry import register
from .mds import MDS


@register(
    "rmds",
    title="R-Mah",
    paper="Ren et al., A Simple Fix to Mahalanobis Distance for Near-OOD Detection, arXiv:2106.09022",
    year=2021,
    formula="−min_c [MD_c(z) − MD_0(z)], squared distances",
    aliases=("RMh", "RMaha", "RMD"),
)
class RMDS(MDS):
    """Worked in float64: both distances are large and nearly equal.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.RMDS().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    background: Tensor

    def _fit(self, reference: Reference) -> None:
        super()._fit(reference)
        self.register_buffer("background", whitener(total_axes(reference)))
        within, among = self.factor.shape[1], self.background.shape[1]
        if within < among:
            warnings.warn(
                f"{self._name}: {reference.count:,} rows vary in {among:,} directions, but within classes in "
                f"{within:,} only. What a sample has in the others counts for it, which can turn the score "
                f"upside down: fit on more rows a class, or choose another score",
                FittingWarning,
                stacklevel=2,
            )

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        exact = in_precision(features, self.background.dtype)
        to_class = -super()._score(exact, logits)
        to_all = (away(exact, self.centre) @ self.background).square().sum(dim=1)
        return (to_all - to_class).to(features.dtype)
