"""What the service needs of whatever gives verdicts: a guard (`judging_guard`), or an exported one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from ..guard import Calibration, ExportedGuard, Guard
from ..guard.verdicts import Verdicts
from .triangle import Sides

AS_STORED = "judged as stored: its EXIF orientation was not applied, as when the guard was fitted"


class Prepared(NamedTuple):
    """An image as the model takes it, and what the client should know of how it came about."""

    image: Tensor
    note: str | None = None


class Judged(NamedTuple):
    """One sample: class (−1: none), score, p-value (NaN: unscorable), the triangle where it was asked for."""

    predicted: int
    score: float
    p_value: float
    sides: Sides | None = None


class Judging(Protocol):
    """Verdicts on batches: of features (N, D), of images that `prepare` made, or of both.

    `warm` is called once, before the first batch; `prepare` from several threads; `judge` from one.
    """

    @property
    def title(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def false_alarm_rate(self) -> float: ...

    @property
    def calibration(self) -> Calibration: ...

    @property
    def takes_features(self) -> bool: ...

    @property
    def takes_pictures(self) -> bool: ...

    def warm(self) -> None: ...

    def prepare(self, picture: Image) -> Prepared: ...

    def judge(self, inputs: Tensor, *, explain: bool) -> list[Judged]: ...

    def class_name(self, index: int) -> str: ...


class OfGuard:
    """What a guard says of itself, exported or not."""

    def __init__(self, known: Guard | ExportedGuard) -> None:
        self._known = known

    @property
    def width(self) -> int:
        return self._known.width

    @property
    def false_alarm_rate(self) -> float:
        return self._known.false_alarm_rate

    @property
    def calibration(self) -> Calibration:
        return self._known.calibration

    def class_name(self, index: int) -> str:
        return self._known.class_name(index)


def rows_of(verdicts: Verdicts, sides: Sequence[Sides | None]) -> list[Judged]:
    """A batch's columns as rows; what is flagged follows from the score and each request's own rate."""
    columns = (verdicts.predicted, verdicts.score, verdicts.p_value)
    predicted, score, p_value = (np.asarray(torch.as_tensor(column).cpu()).tolist() for column in columns)
    return [Judged(*row) for row in zip(predicted, score, p_value, sides, strict=True)]
