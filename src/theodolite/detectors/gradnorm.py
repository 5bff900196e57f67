"""GradNorm: the size of the gradient that would make the answer undecided (Huang et al., NeurIPS 2021).

    s(z) = ‖∂/∂W Σ_c −log softmax(l/T)_c‖₁ = ‖z‖₁ · Σ_c |C·p_c − 1| / T,   p = softmax(l/T)

The gradient of a weight w_cd is z_d·(C·p_c − 1)/T: its L1 norm is a product of two sums, no backward pass.
ID inputs have larger features and are answered with more certainty.

Where it fails: the L1 norm decides where answers are equally sure: a network whose OOD features are as large
as its ID features leaves little to tell them by.

Cost for N rows, beyond the logits: a few passes over N×C, one over N×D.
"""

from __future__ import annotations

from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import fixed
from ._base import Detector
from ._registry import register
from .shaping import Shaping


@register(
    "gradnorm",
    title="GradNorm",
    paper="Huang et al., On the Importance of Gradients for Detecting Shifts in the Wild, arXiv:2110.00218",
    year=2021,
    formula="‖z‖₁ · Σ_c |C·p_c − 1| / T",
)
class GradNorm(Detector):
    """temperature: T. Of the head's weights, as in the paper: not of its bias, nor of other layers.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.GradNorm().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(self, *, temperature: float = 1.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        self.temperature = temperature

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        likely = (logits / self.temperature).softmax(dim=1)
        sides = (likely * fixed(logits.shape[1]) - 1).abs().sum(dim=1)
        return features.abs().sum(dim=1) * sides / self.temperature
