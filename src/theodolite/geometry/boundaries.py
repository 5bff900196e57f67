"""All decision boundaries of a head at once: distances to them from logits and one (C, C) table."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.arrays import row_maxima
from ..core.graphs import recording
from ..core.once import once
from ..reference.head import Head
from .inner_product import Mahalanobis
from .triangle import pairwise_lengths, reciprocal_lengths, signed_distances

_ROWS_AT_ONCE = 64


class Margins(NamedTuple):
    """Rows against the boundaries of their predicted class."""

    predicted: Tensor  # (n,) class numbers
    reciprocal: Tensor  # (n, C) 1/‖w_p − w_c‖, 0 where there is no boundary
    steepest: Tensor  # (n,) the largest of these
    distance: Tensor  # (n, C) signed distances, ≥ 0
    widest: Tensor  # (n, 1) the largest difference of logits


class Boundaries:
    """The table of reciprocal boundary lengths of a head, kept in each precision and place it is used in.

    Lengths are Euclidean, or those of ``metric``. Memory is 8·C² bytes, with 4·C² more for the float32 copy.
    """

    def __init__(self, head: Head, metric: Mahalanobis | None = None) -> None:
        table = pairwise_lengths(head.weight) if metric is None else metric.boundary_lengths(head)
        for lengths in torch.split(table, _ROWS_AT_ONCE):
            lengths.copy_(reciprocal_lengths(lengths))
        self._exact = table
        self._steepest = table.amax(dim=1)
        self._copies: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def table(self, like: Tensor) -> Tensor:
        """(C, C) reciprocal lengths in the precision and on the device of ``like``."""
        return self._tables(like)[0]

    def _tables(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The table, and the largest entry of each of its rows."""
        if recording():
            return self._exact.to(like), self._steepest.to(like)
        key = (like.dtype, like.device)
        if key not in self._copies:
            self._copies[key] = self._exact.to(like), self._steepest.to(like)
        return self._copies[key]

    def margins(self, logits: Tensor) -> Margins:
        """Distances of all rows to the boundaries of their predicted class. O(n·C)."""
        return once(_margins, logits, *self._tables(logits))

    def counts(self, margins: Margins) -> Tensor:
        """Boundaries each row has: C − 1, less the classes that share the predicted one's weights."""
        return (margins.reciprocal > 0).sum(dim=1).clamp_min_(1)


def _margins(logits: Tensor, table: Tensor, steepest: Tensor) -> Margins:
    own, predicted = row_maxima(logits)
    reciprocal = table.index_select(0, predicted)
    widest = own - logits.amin(dim=1, keepdim=True)
    distance = signed_distances(own, logits, reciprocal)
    return Margins(predicted, reciprocal, steepest.index_select(0, predicted), distance, widest)
