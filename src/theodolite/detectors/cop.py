"""CoP: reconstruction error of unit features by their principal directions (Fang et al., NeurIPS 2024).

    s(z) = −‖Φ − UUᵀΦ‖,   Φ = z/‖z‖ − mean, U the leading principal directions of Φ

Kernel PCA with a cosine kernel: ID features lie close to few directions of the sphere, OOD features do not.

Where it fails: where ID features fill the sphere evenly no few directions reconstruct them, and the share of
variance to keep decides: it differs between networks (the authors' own does by task).

Cost for N rows, beyond the logits: 2·N·D·q for q directions.
"""

from __future__ import annotations

from torch import Tensor

from ._reconstruction import Reconstructed
from ._registry import register
from .shaping import Shaping


@register(
    "cop",
    title="CoP",
    paper="Fang et al., Kernel PCA for Out-of-Distribution Detection, arXiv:2402.02949",
    year=2024,
    formula="−‖Φ − UUᵀΦ‖, Φ = z/‖z‖ − mean, U principal directions",
)
class CoP(Reconstructed):
    """variance: U are the fewest directions that explain this share of it (authors: 0.85 on CIFAR-10, 0.99 on
    ImageNet). dimension: overrides it with a number of directions.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.CoP().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    def __init__(
        self, *, variance: float = 0.85, dimension: int | None = None, shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(variance=variance, dimension=dimension, shaping=shaping)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        return self._left_over(features)
