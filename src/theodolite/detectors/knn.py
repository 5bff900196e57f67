"""KNN: distance to the k-th nearest ID feature on the unit sphere (Sun et al., ICML 2022).

    s(z) = −‖ẑ − ẑ_(k)‖,   ẑ = z/‖z‖, ẑ_(k) its k-th nearest neighbour in the bank

No model of the features at all: ID features have company. "KNN+" is the same score on a contrastive model.

Where it fails: a bank that is too small for k, or k too small for a bank with stray rows, decides more than
the features do; memory and time grow with the bank.

Cost for N rows, beyond the logits: N·D·B, for B rows in the bank.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from ..core.graphs import fixed, recording
from ..geometry.cells import Cells, probed_similarities
from ..geometry.neighbours import top_similarities
from ..reference.head import row_lengths
from ..reference.reference import Reference
from ._approximation import CLOSE, Approximation, fitted_cells, require_cells
from ._banked import Banked
from ._precision import crowded, unresolved
from ._registry import register
from .shaping import Shaping


@register(
    "knn",
    title="KNN",
    paper="Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, arXiv:2204.06507",
    year=2022,
    formula="−‖ẑ − k-th nearest ẑ_i‖ over the ID bank",
    aliases=("KNN+",),
)
class KNN(Banked):
    """Exact search, unless a recall is asked for. With fewer than k rows in the bank the furthest one counts.
    Rows of zeros, which have no direction, are taken to be at a right angle to all others and at no distance
    from each other.

    k: the field uses 50 on CIFAR-10, 200 on CIFAR-100, 1000 on ImageNet.
    fraction: share of each class kept in the bank, chosen by ``seed``.
    half_bank: keep the bank in float16, in half the memory.
    store: the folder of a feature store that is the bank; its rows stay on disk, and `fit` needs no features.
    recall: below 1 the search is approximate, for banks of a million rows and more. It looks through as many
    cells of the bank as find this share of the k nearest rows, measured at the fit (`approximation`).

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.KNN(k=10).fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

    uses_logits = False
    unit = True
    cell_centres: Tensor
    cell_starts: Tensor
    probes: Tensor
    measured_recall: Tensor

    def __init__(
        self,
        *,
        k: int = 50,
        fraction: float = 1.0,
        seed: int = 0,
        half_bank: bool = False,
        recall: float = 1.0,
        store: str | Path | None = None,
        shaping: Shaping | str | None = None,
    ) -> None:
        super().__init__(k=k, fraction=fraction, seed=seed, half_bank=half_bank, store=store, shaping=shaping)
        if not 0.5 <= recall <= 1:
            raise InputError(f"recall must lie in [0.5, 1], got {recall}; 1 is the exact search")
        if recall < 1 and store is not None:
            raise InputError(
                "recall below 1 is a search of cells, which a bank in a store does not lie in: leave out "
                "recall, or the store (half_bank and fraction make a bank in memory smaller)"
            )
        self.recall = recall

    def _fit(self, reference: Reference) -> None:
        super()._fit(reference)
        if self.recall < 1:
            found = fitted_cells(self.bank, self.k, self.recall)
            self.register_buffer("bank", found.bank)
            self.register_buffer("cell_centres", found.cells.centres)
            self.register_buffer("cell_starts", found.cells.starts)
            self.register_buffer("probes", torch.tensor(found.probes))
            self.register_buffer("measured_recall", torch.tensor(found.recall, dtype=torch.float64))

    @property
    def approximation(self) -> Approximation | None:
        """The cells of a fitted approximate search, and the recall that was measured; None if it is exact."""
        return (
            None if self.recall == 1 or self.width is None else Approximation.of(dict(self.named_buffers()))
        )

    def extra_repr(self) -> str:
        found = self.approximation
        return super().extra_repr() + ("" if found is None else f" ({found})")

    @property
    def _cells(self) -> Cells:
        return Cells(self.cell_centres, self.cell_starts)

    def _build(self) -> None:
        super()._build()
        if self._stored is None:
            self.exact_directions = crowded(self.bank.mean(dim=0, dtype=torch.float64))
            self._zeros: int | None = _rows_of_zeros([self.bank])
            if self.recall < 1:
                found = self.approximation
                if found is None:
                    raise FormatError("it has no cells to search")
                require_cells(self._cells, found, len(self.bank), self.width, self.k)
        else:
            self._zeros = None  # counted when it matters: it takes a look at the whole store

    def _factors(self, rows: Tensor) -> Tensor | None:
        if self.shaping is not None or (self.head is not None and self.head.unit_features):
            return None
        lengths = row_lengths(rows)
        # Crowded rows, and such as have no length to divide by, are looked at with more digits.
        if lengths is None or crowded((rows / lengths).mean(dim=0, dtype=torch.float64)):
            return None
        return lengths.reciprocal()

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:  # noqa: ARG002
        # Rows in half precision are shorter or longer than one by more than distances may be wrong.
        by_distance = self.half_bank or features.dtype == torch.float64
        cosines, places = self._nearest(features, by_distance=by_distance)
        # The distance from 2 − 2cos would lose half the digits of a close neighbour; the difference does not.
        neighbour = self._bank_rows(places[:, -1]).to(features)
        distance: Tensor = torch.linalg.vector_norm(features - neighbour, dim=1)
        return -unresolved(self._to_nothing(features, neighbour, distance), cosines[:, -1] > 1 - CLOSE)

    def _nearest(self, features: Tensor, *, by_distance: bool) -> tuple[Tensor, Tensor]:
        if self.recall == 1:
            return top_similarities(
                features, self._searched(), self.k, by_distance=by_distance, order_only=True
            )
        if recording():
            raise InputError(
                "an approximate search (recall below 1) chooses the rows it looks at, which a graph cannot: "
                "fit KNN with recall=1 to trace, export or compile it"
            )
        return probed_similarities(
            features, self.bank, self._cells, self.k, int(self.probes), by_distance=by_distance
        )

    def _to_nothing(self, features: Tensor, neighbour: Tensor, distance: Tensor) -> Tensor:
        """Distances, where a row of zeros has a direction of its own: its like is there, all else across."""
        nothing, beside = ~features.any(dim=1), ~neighbour.any(dim=1)
        if not recording() and not bool((nothing | beside).any()):
            return distance
        across = torch.full_like(distance, 2**0.5)
        to_its_like = torch.zeros_like(across) if self._enough_zeros() else across
        return torch.where(nothing, to_its_like, torch.where(beside, across, distance))

    def _enough_zeros(self) -> bool:
        """Whether the bank has as many rows of zeros as neighbours are asked for."""
        if self._zeros is None:
            assert self._stored is not None
            self._zeros = _rows_of_zeros(self._stored.blocks())
        count = fixed(self.bank.shape[0]) if self._stored is None else self._stored.count
        return self._zeros >= min(self.k, count)


def _rows_of_zeros(blocks: Iterable[Tensor]) -> int:
    return sum(int((~block.any(dim=1)).sum()) for block in blocks)
