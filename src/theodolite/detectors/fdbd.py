"""fDBD: mean distance to the decision boundaries over the distance to the mean (Liu and Qin, ICML 2024).

    s(z) = 1/(C−1) Σ_{c≠p} d_c(z) / ‖z − μ‖,   d_c = (l_p − l_c) / ‖w_p − w_c‖

ID features lie further from the boundaries than OOD features at the same deviation from the ID mean.

Where it fails: the mean is over all classes, so that with very many of them the boundaries that matter are a
small part of it; directions that no row of W looks at count in ‖z − μ‖ alone.

Cost for N rows, beyond the logits: a few passes over N×C, one over N×D.
"""

from __future__ import annotations

from torch import Tensor

from ..geometry.boundaries import Boundaries
from ..geometry.deviation import away, length
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._measured import Measured
from ._precision import blurred, reach, resolved_ratio
from ._registry import register


@register(
    "fdbd",
    title="fDBD",
    paper="Liu and Qin, Fast Decision Boundary based Out-of-Distribution Detector, arXiv:2312.11536",
    year=2024,
    formula="mean_c (l_p − l_c)/‖w_p − w_c‖ / ‖z − μ‖",
)
class FDBD(Measured):
    """Classes that share the predicted one's weights have no boundary and are left out of the mean.

    metric, shrinkage: as in ORA.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.FDBD().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    mean: Tensor

    @property
    def needs(self) -> Needs:
        return super().needs | Needs(mean=True)

    def _fit(self, reference: Reference) -> None:
        super()._fit(reference)
        self.register_buffer("mean", reference.statistics.moments.mean)

    def _build(self) -> None:
        super()._build()
        assert self.head is not None
        self._boundaries = Boundaries(self.head, self._metric)
        self._reach = reach(self.mean, self.head)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        margins = self._boundaries.margins(logits)
        mean_distance = margins.distance.sum(dim=1) / self._boundaries.counts(margins)
        apart = away(features, self.mean)
        plain = length(apart)
        deviation = plain if self._metric is None else length(self._coordinates(apart))
        return resolved_ratio(mean_distance, deviation, blurred(plain, self._reach))
