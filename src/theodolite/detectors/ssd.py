"""SSD+: Mahalanobis distance with a covariance of each class, on unit features (Sehwag et al., ICLR 2021).

    s(z) = −min_c (x − μ_c)ᵀ Σ_c⁺ (x − μ_c),   x = (z/‖z‖ − m) / σ, m and σ of the training set

Made for contrastive models, whose classes differ in shape. Σ_c is never formed: it is kept as a factor of as
many columns as it has rank, at most min(D, n_c − 1), so memory is at most min(N, C·D)·D numbers.

Where it fails: a covariance of each class needs rows of each class: with two of them there is one direction,
and everything new is as strange as everything else.

Cost for N rows, beyond the logits: N·D·min(N_fit, C·D).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from ..geometry.covariance import not_flat, scale_of
from ..geometry.deviation import away
from ..reference.bank import ALL_ROWS
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import in_precision
from ._precision import crowded
from ._registry import register
from .shaping import Shaping

_GIBIBYTE = 2**30


@register(
    "ssd+",
    title="SSD+",
    paper="Sehwag et al., SSD: A Unified Framework for Self-Supervised Outlier Detection, arXiv:2103.12051",
    year=2021,
    formula="−min_c (x − μ_c)ᵀ Σ_c⁺ (x − μ_c), x = standardised z/‖z‖",
)
class SSDPlus(Detector):
    """Squared distances. Classes without two different samples have no shape and are left out.

    memory_limit: largest size of the class factors in GiB; a fit that would need more is refused.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.SSDPlus().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    unit = True
    second_look = False
    mean: Tensor
    scale: Tensor
    factor: Tensor
    offsets: Tensor
    owner: Tensor

    def __init__(self, *, memory_limit: float = 4.0, shaping: Shaping | str | None = None) -> None:
        super().__init__(shaping=shaping)
        self.memory_limit = memory_limit

    @property
    def needs(self) -> Needs:
        return Needs(class_means=True, bank=ALL_ROWS)

    def _fit(self, reference: Reference) -> None:
        bank = reference.statistics.bank
        rows, labels = bank.features.double(), bank.labels
        mean = rows.mean(dim=0)
        spread = rows.std(dim=0, correction=0)
        scale = scale_of(mean, spread)
        classes = [int(c) for c in torch.unique(labels) if int((labels == c).sum()) >= 2]
        if not classes:
            raise InputError("no class has two samples: SSD+ needs a covariance of each class")
        self._refuse_if_too_large(labels, rows.shape[1])
        standard = (rows - mean) / scale
        shaped = (self._class_factor(standard[labels == c]) for c in classes)
        parts = [(centre, factor) for centre, factor in shaped if factor.shape[1] > 0]
        if not parts:
            raise InputError("in no class do two samples differ: SSD+ needs a covariance of each class")
        ranks = torch.tensor([factor.shape[1] for _, factor in parts])
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.register_buffer("factor", torch.cat([factor for _, factor in parts], dim=1))
        self.register_buffer("offsets", torch.cat([centre @ factor for centre, factor in parts]))
        self.register_buffer("owner", torch.repeat_interleave(torch.arange(len(parts)), ranks))

    def _refuse_if_too_large(self, labels: Tensor, width: int) -> None:
        ranks = torch.bincount(labels).sub(1).clamp(0, width).sum()
        needed = 8 * int(ranks) * width / _GIBIBYTE
        if needed > self.memory_limit:
            raise InputError(
                f"SSD+ needs {needed:.1f} GiB for its class covariances ({int(ranks):,} directions of width "
                f"{width:,}), memory_limit is {self.memory_limit:g} GiB: raise it, or fit on fewer samples"
            )

    @staticmethod
    def _class_factor(rows: Tensor) -> tuple[Tensor, Tensor]:
        """A class's mean and the factor F, with F Fᵀ the pseudo-inverse of its covariance."""
        centre = rows.mean(dim=0)
        _, sizes, directions = torch.linalg.svd(rows - centre, full_matrices=False)
        kept = not_flat(sizes.square(), rows.shape[1])
        return centre, directions[kept].T * (len(rows) ** 0.5 / sizes[kept])

    def _build(self) -> None:
        self.exact_directions = crowded(self.mean)
        self._classes = int(self.owner.max()) + 1
        if not 0 <= int(self.owner.min()) <= int(self.owner.max()) < len(self.owner):
            raise FormatError("owner numbers classes that have no direction")

    def _tile_rows(self, device: torch.device) -> int:
        return max(16, min(super()._tile_rows(device), 2**23 // max(1, self.factor.shape[1])))

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        standard = away(in_precision(features, self.mean.dtype), self.mean) / self.scale
        squares = (standard @ self.factor).sub_(self.offsets).square_()
        distances = squares.new_zeros(squares.shape[0], self._classes)
        distances.index_add_(1, self.owner, squares)
        return -distances.amin(dim=1).to(features.dtype)
