"""How often a head predicts the labels of stored features."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.arrays import as_float
from ..reference.head import Head
from ..reference.reference import Batch


def head_accuracy(head: Head, batches: Iterable[Batch], *, rows: int | None = None) -> float | None:
    """Share of labels that a head predicts, over all batches or the first ``rows``; None without labels."""
    right = seen = 0
    for features, labels, _ in batches:
        if labels is None or (rows is not None and seen >= rows):
            break
        known = labels >= 0
        right += int((head(as_float(features)).argmax(dim=1) == labels).sum())
        seen += int(known.sum())
    return right / seen if seen else None
