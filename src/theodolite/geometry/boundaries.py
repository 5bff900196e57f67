"""All decision boundaries of a head at once: distances to them from logits and one (C, C) table."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
        self._copies: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def table(self, like: Tensor) -> Tensor:
        """(C, C) reciprocal lengths in the precision and on the device of ``like``."""
        if recording():
            return self._exact.to(like)
        key = (like.dtype, like.device)
        if key not in self._copies:
            self._copies[key] = self._exact.to(like)
        return self._copies[key]

    def margins(self, logits: Tensor) -> Margins:
        """Distances of all rows to the boundaries of their predicted class. O(n·C)."""
        return once(_margins, logits, self.table(logits))

    def counts(self, margins: Margins) -> Tensor:
        """Boundaries each row has: C − 1, less the classes that share the predicted one's weights."""
        return (margins.reciprocal > 0).sum(dim=1).clamp_min_(1)


def _margins(logits: Tensor, table: Tensor) -> Margins:
    own, predicted = once(_predicted, logits)
    reciprocal = table.index_select(0, predicted[:, 0])
    widest = own - logits.amin(dim=1, keepdim=True)
    return Margins(predicted[:, 0], reciprocal, signed_distances(own, logits, reciprocal), widest)


def _predicted(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The largest logit of each row and its class, both (n, 1)."""
    own, predicted = logits.max(dim=1, keepdim=True)
    return own, predicted
