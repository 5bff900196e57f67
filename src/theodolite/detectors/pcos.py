"""P-Cos: cosine to the nearest class mean (Galil et al., ICLR 2023).

    s(z) = max_c cos(z, μ_c)

ID features point along the mean of their class; OOD features along none. μ_c is the mean of raw features.

Where it fails: classes of several shapes have no one mean direction, and lengths are not looked at.

Cost for N rows, beyond the logits: N·D·C.
"""

from __future__ import annotations

from torch import Tensor

from ..core.once import kept_like, once
from ..reference.head import unit_rows
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import unit
from ._registry import register


@register(
    "pcos",
    title="P-Cos",
    paper="Galil et al., A Framework for Benchmarking Class-OOD Detection, arXiv:2302.11893",
    year=2023,
    formula="max_c cos(z, μ_c)",
)
class PCos(Detector):
    """In [−1, 1]. Classes without samples are left out; a row of zeros has cosine 0 with everything.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.PCos().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    second_look = False
    directions: Tensor

    @property
    def needs(self) -> Needs:
        return Needs(class_means=True)

    def _fit(self, reference: Reference) -> None:
        moments = reference.statistics.moments
        self.register_buffer("directions", unit_rows(moments.means[moments.counts > 0]))

    def _cosines(self, features: Tensor) -> Tensor:
        return once(_products, unit(features), self.directions)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return self._cosines(features).amax(dim=1)


def _products(rows: Tensor, directions: Tensor) -> Tensor:
    return rows @ kept_like(directions, rows).T
