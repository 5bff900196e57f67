"""SHE: how much a feature agrees with the pattern of its class (Zhang et al., ICLR 2023).

    s(z) = ⟨z, S_p⟩,   S_c the mean of the ID features that are rightly answered c

The simplified Hopfield energy: a pattern is what the network stores of a class, and only rows that it got
right show it.

Where it fails: the product grows with the length of z: large OOD features agree with every pattern.

Cost for N rows, beyond the logits: N·D.
"""

from __future__ import annotations

from torch import Tensor

from ..core.arrays import row_maxima
from ..core.once import kept_like
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._fitting import right_rows
from ._registry import register


@register(
    "she",
    title="SHE",
    paper="Zhang et al., OOD Detection based on In-Distribution Data Patterns Memorization, ICLR 2023",
    year=2023,
    formula="⟨z, S_p⟩, S_c mean of the rows rightly answered c",
)
class SHE(Detector):
    """A class of which no row is answered right has the mean of all that are.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.SHE().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    patterns: Tensor

    @property
    def needs(self) -> Needs:
        return Needs(correct_means=True)

    def _fit(self, reference: Reference) -> None:
        right = right_rows(reference, self._name)
        patterns = right.means.clone()
        patterns[right.counts == 0] = right.mean
        self.register_buffer("patterns", patterns)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        own = kept_like(self.patterns, features)[row_maxima(logits)[1]]
        return (features * own).sum(dim=1)
