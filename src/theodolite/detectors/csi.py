"""CSI: cosine to the nearest ID feature, times the norm, over shifted views (Tack et al., NeurIPS 2020).

    s(x) = Σ_v [ λ_v · max_i cos(z_v, z_{v,i})·‖z_v‖  +  κ_v · q_v ],   λ_v = 1/mean‖z_v‖,  κ_v = 1/mean q_v

over the views v of an input (rotations by 0°, 90°, 180°, 270° in the paper), z_v its feature and q_v the
logit that the shift classifier gives to the right shift; means over the training set. Made for networks
trained with CSI, where outliers have small norms; with one view and no shift classifier it works on any
contrastive features.

Where it fails: the norm has to carry meaning: on networks trained by cross-entropy it need not, and the
nearest of many rows is close to an OOD row too.

Cost for N rows, beyond the logits: N·D·B, for B rows in the bank.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.graphs import fixed
from ..geometry.neighbours import query_rows, top_similarities
from ..reference.bank import ALL_ROWS
from ..reference.head import unit_rows
from ..reference.reference import Reference
from ..reference.statistics import Needs
from ._base import Detector
from ._common import unit
from ._half_bank import half_precision, without_later
from ._registry import OptionValue, register
from .shaping import Shaping


@register(
    "csi",
    title="CSI",
    paper="Tack et al., CSI: Novelty Detection via Contrastive Learning, arXiv:2007.08176",
    year=2020,
    formula="Σ_views λ·max_i cos(z, z_i)·‖z‖ (+ κ·shift logit)",
)
class CSI(Detector):
    """A row holds its views side by side, each followed by its shift logit if there are any.

    views: how many. shift_logits: whether each view's columns end with the logit of the right shift.
    half_bank: keep the bank in float16, in half the memory.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.CSI().fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    bank: Tensor
    norm_weight: Tensor
    shift_weight: Tensor

    def __init__(
        self,
        *,
        views: int = 1,
        shift_logits: bool = False,
        half_bank: bool = False,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(shaping=shaping)
        if views < 1:
            raise InputError(f"views must be at least 1, got {views}")
        if shaping is not None and shift_logits:
            raise InputError("shaping would change the shift logits: use it with shift_logits=False")
        self.views = views
        self.shift_logits = shift_logits
        self.half_bank = half_bank

    @property
    def needs(self) -> Needs:
        return Needs(bank=ALL_ROWS)

    def options(self) -> dict[str, OptionValue]:
        """The hyper-parameters, as the constructor takes them."""
        return without_later(super().options())

    def _split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(views, N, D) features and (views, N) shift logits, zero where the model has none."""
        columns, rest = divmod(fixed(features.shape[1]), self.views)
        if rest or columns <= self.shift_logits:
            raise InputError(
                f"features have width {features.shape[1]}, which {self.views} views cannot share"
            )
        blocks = features.reshape(features.shape[0], self.views, columns).transpose(0, 1)
        if not self.shift_logits:
            return blocks, blocks.new_zeros(blocks.shape[:2])
        return blocks[..., :-1], blocks[..., -1]

    def _fit(self, reference: Reference) -> None:
        rows, shifts = self._split(reference.statistics.bank.features.double())
        mean_norm = torch.linalg.vector_norm(rows, dim=2).mean(dim=1)
        if not bool((mean_norm > 0).all()):
            raise InputError("features of a view are all zero: CSI has no norm to compare with")
        mean_shift = shifts.mean(dim=1)
        weight = torch.where(mean_shift != 0, mean_shift.reciprocal(), torch.zeros_like(mean_shift))
        bank = torch.stack([unit_rows(view) for view in rows]).float()
        self.register_buffer("bank", half_precision(bank) if self.half_bank else bank)
        self.register_buffer("norm_weight", mean_norm.reciprocal())
        self.register_buffer("shift_weight", weight)

    @property
    def _whole(self) -> bool:
        """Whether a row is its only view, and nothing else."""
        return self.views == 1 and not self.shift_logits

    def _tile_rows(self, device: torch.device) -> int:
        return query_rows(device)

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        rows, shifts = self._split(features)
        scores = (shifts * self.shift_weight.to(features)[:, None]).sum(dim=0)
        weights = self.norm_weight.to(features)
        for view, bank, weight in zip(rows.unbind(), self.bank.unbind(), weights.unbind(), strict=True):
            nearest, _ = top_similarities(unit(features) if self._whole else unit_rows(view), bank, 1)
            scores = scores + weight * nearest[:, 0] * torch.linalg.vector_norm(view, dim=1)
        return scores
