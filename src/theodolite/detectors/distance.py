"""Distance: the raw distance to the furthest decision boundary (the small-data appendix of the ORA paper).

    s(z) = max_{c≠p} (l_p − l_c) / ‖w_p − w_c‖

Training pushes ID features deep into their class; the score keeps the scale of the features, unlike an angle.

Where it fails: the scale that it keeps is also what misleads it: OOD rows with large features stand far from
some boundary.

Cost for N rows, beyond the logits: a few passes over N×C.
"""

from __future__ import annotations

from torch import Tensor

from ..geometry.boundaries import Boundaries
from ._measured import Measured
from ._precision import unresolved
from ._registry import register

# Margins below this share of the bias are worked in float64.
_SHARE = 2.0**-10


@register(
    "distance",
    title="Distance",
    paper="Demirel et al., Out-of-Distribution Detection with Relative Angles",
    year=2025,
    formula="max_c (l_p − l_c)/‖w_p − w_c‖",
)
class Distance(Measured):
    """In feature units, or in those of the Mahalanobis ``metric`` (``shrinkage`` as in ORA).

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.Distance().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def _build(self) -> None:
        super()._build()
        assert self.head is not None
        self._boundaries = Boundaries(self.head, self._metric)
        self._bias = float(self.head.bias.abs().max())

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        margins = self._boundaries.margins(logits)
        return unresolved(margins.distance.amax(dim=1), margins.widest[:, 0] < _SHARE * self._bias)
