"""Energy: log-sum-exp of the logits (Liu et al., NeurIPS 2020).

    s(z) = T · log Σ_c exp(l_c / T)

ID inputs raise at least one logit; OOD inputs raise none as far.

Where it fails: an OOD input with large features raises logits as well, and all that the logits leave out
(what lies across the rows of W) is not seen.

Cost for N rows, beyond the logits: one pass over N×C.
"""

from __future__ import annotations

from torch import Tensor

from ..core.errors import InputError
from ._base import Detector
from ._common import log_sum_exp
from ._registry import register
from .shaping import Shaping


@register(
    "energy",
    title="Energy",
    paper="Liu et al., Energy-based Out-of-distribution Detection, arXiv:2010.03759",
    year=2020,
    formula="T · log Σ_c exp(l_c / T)",
    aliases=("EBO",),
)
class Energy(Detector):
    """The negative free energy at ``temperature`` T.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.Energy(temperature=1.0).fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(self, *, temperature: float = 1.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        self.temperature = temperature

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        scaled = logits if self.temperature == 1 else logits / self.temperature
        return self.temperature * log_sum_exp(scaled)
