"""What a guard says: of a batch in columns, of files in rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.arrays import ArrayLike
from ..core.errors import InputError

OOD, ID, UNREADABLE, UNSCORABLE = "OOD", "ID", "unreadable", "unscorable"
# What is predicted of a row without a score, and by a guard without a head.
NO_CLASS = -1
# What to do with such rows.
RAISE, FLAG = "raise", "flag"


class Verdicts(NamedTuple):
    """One entry a sample: class, score (higher = more in-distribution), p-value, flagged or not.

    A sample whose features hold NaN or infinity is unscorable: flagged, of class −1, score and p-value NaN.
    A guard without a head predicts nothing: the class of all its samples is −1.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> verdicts = guard.verdicts(np.stack([means[2], np.full(8, np.nan)]), unscorable="flag")
    >>> verdicts.predicted, verdicts.is_ood, verdicts.unscorable
    (array([ 2, -1]), array([False,  True]), array([False,  True]))
    """

    predicted: ArrayLike
    score: ArrayLike
    p_value: ArrayLike
    is_ood: ArrayLike

    @property
    def unscorable(self) -> ArrayLike:
        """True for samples that could not be judged: they are flagged, but nothing is known of them."""
        p = self.p_value
        return torch.isnan(p) if isinstance(p, Tensor) else np.isnan(p)


class PathVerdict(NamedTuple):
    """One sample's verdict, ``OOD`` or ``ID``; `name` is the predicted class in words where it has a name.

    Class and name are None where the guard has no head, and predicts none.
    Of a picture that cannot be read, or whose features hold NaN or infinity, there is nothing but the verdict
    that it is so: ``unreadable``, ``unscorable``.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> np.save("new.npy", np.stack([means[2], np.full(8, 9.0)]))
    >>> [(row.path, row.verdict) for row in guard.score_folder("new.npy")]
    [('new.npy#0', 'ID'), ('new.npy#1', 'OOD')]
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
        PathVerdict(path, None, None, None, None, UNSCORABLE)
        if math.isnan(p_value)
        else PathVerdict(path, *_class(label, class_name), score, p_value, OOD if flagged else ID)
        for path, label, score, p_value, flagged in zip(paths, *columns, strict=True)
    ]


def _class(label: int, class_name: Callable[[int], str]) -> tuple[int | None, str | None]:
    return (None, None) if label == NO_CLASS else (label, class_name(label))


def check_unscorable(choice: str) -> None:
    if choice not in (RAISE, FLAG):
        raise InputError(f"unscorable must be {RAISE!r} or {FLAG!r}, got {choice!r}")


def unreadable(path: str) -> PathVerdict:
    """Every picture has a row, also one that could not be read and was to be skipped."""
    return PathVerdict(path, None, None, None, None, UNREADABLE)
