"""A limit: a sample of the data that looks like the whole, the same one every time.

The first samples of a folder are its first classes, and a guard that was fitted on a few classes flags all
others. A limit therefore takes from each class what its share of the data is, up to one sample, and within a
class those that a seeded hash of their places chooses. Every sample has the same chance: what was calibrated
on the sample keeps its promise for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..core.errors import InputError
from ..reference.bank import sample_keys
from .sample import ImageSource, labels_of
from .selection import Selection

SEED = 0
# Names the way of choosing: another way is another sample, and gets another name.
METHOD = "stratified"
_BITS = 2**63


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}")


def sample_of(source: ImageSource, limit: int | None, seed: int = SEED) -> ImageSource:
    """The source, or a sample of ``limit`` of it where it has more."""
    check_limit(limit)
    if limit is None or limit >= len(source):
        return source
    return Selection(source, sampled_rows(labels_of(source), limit, seed))


def sampled_rows(labels: Sequence[int | None], limit: int, seed: int = SEED) -> list[int]:
    """Which ``limit`` of the rows with these labels are taken, ascending. Rows without a label are a class.

    The rows are put in the order of their labels, within a label in that of their keys; then every n-th is
    taken, beginning at a place that the seed decides.
    """
    count = len(labels)
    if limit >= count:
        return list(range(count))
    keys = sample_keys(torch.arange(count), seed).numpy()
    classes = np.array([-1 if label is None else label for label in labels], dtype=np.int64)
    order = np.lexsort((keys, classes))
    start = int(sample_keys(torch.tensor([-1]), seed))
    places = [(place * _BITS + start) * count // (limit * _BITS) for place in range(limit)]
    return sorted(order[places].tolist())
