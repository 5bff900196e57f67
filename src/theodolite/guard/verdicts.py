"""What a guard says: of a batch in columns, of files in rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..core.arrays import ArrayLike

OOD, ID, UNREADABLE = "OOD", "ID", "unreadable"


class Verdicts(NamedTuple):
    """One entry a sample: class, score (higher = more in-distribution), p-value, flagged or not."""

    predicted: ArrayLike
    score: ArrayLike
    p_value: ArrayLike
    is_ood: ArrayLike


class PathVerdict(NamedTuple):
    """One sample's verdict, ``OOD`` or ``ID``; `name` is the predicted class in words where it has a name.

    Of a picture that cannot be read there is nothing but the verdict that it is so: ``unreadable``.
    """

    path: str
    predicted: int | None
    name: str | None
    score: float | None
    p_value: float | None
    verdict: str


def path_verdicts(
    paths: Sequence[str], verdicts: Verdicts, class_name: Callable[[int], str]
) -> list[PathVerdict]:
    """The verdicts of one batch, a row a sample."""
    columns = (np.asarray(column).tolist() for column in verdicts)
    return [
        PathVerdict(path, label, class_name(label), score, p_value, OOD if flagged else ID)
        for path, label, score, p_value, flagged in zip(paths, *columns, strict=True)
    ]


def unreadable(path: str) -> PathVerdict:
    """Every picture has a row, also one that could not be read and was to be skipped."""
    return PathVerdict(path, None, None, None, None, UNREADABLE)
