"""What the service needs of whatever gives verdicts, and how a guard gives it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from ..core.errors import InputError, TheodoliteWarning
from ..data.orientation import orientation, upright
from ..data.sample import plain
from ..features.device import choose_device
from ..guard import Calibration, Explainer, Guard
from ..guard.verdicts import FLAG, Verdicts
from ..models import LoadedModel
from .triangle import Sides, sides_of

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
    """Verdicts on batches: of features (N, D), or of images that `prepare` made.

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
    def takes_pictures(self) -> bool: ...

    def warm(self) -> None: ...

    def prepare(self, picture: Image) -> Prepared: ...

    def judge(self, inputs: Tensor, *, explain: bool) -> list[Judged]: ...

    def class_name(self, index: int) -> str: ...


class JudgingGuard:
    """A guard, with its model where it knows one: `warm` loads it, and it is checked as ever."""

    def __init__(
        self,
        guard: Guard,
        *,
        model: str | None = None,
        weights: str | Path | None = None,
        device: str = "cpu",
    ) -> None:
        self.guard = guard
        self._named = model, weights
        self._device = choose_device(device)
        self._loaded: LoadedModel | None = None
        self._explainer: Explainer | None = None

    @property
    def title(self) -> str:
        score, known = self.guard.detector.record.title, self.guard.provenance
        return score if known is None else f"{score} on {known.model}"

    @property
    def width(self) -> int:
        return self.guard.width

    @property
    def false_alarm_rate(self) -> float:
        return self.guard.false_alarm_rate

    @property
    def calibration(self) -> Calibration:
        return self.guard.calibration

    @property
    def takes_pictures(self) -> bool:
        return self.guard.loaded is not None or self.guard.provenance is not None

    def warm(self) -> None:
        """Load the model, and give both a first batch: the model's head must be the guard's."""
        self.guard.to(self._device)
        if self.takes_pictures:
            self._loaded = self.guard._own_model(*self._named)
            self.guard.to(self._device)
            noise = torch.rand(2, *self._loaded.input_shape, generator=torch.Generator().manual_seed(0))
            self.judge(noise, explain=False)
        self.judge(torch.ones(1, self.width), explain=True)

    def prepare(self, picture: Image) -> Prepared:
        """As `theodolite score` prepares it, to the bit."""
        assert self._loaded is not None
        image = plain(picture)
        tilted = orientation(image) != 1
        turn = self.guard.provenance is not None and self.guard.provenance.turns
        prepared = self._loaded.preprocess(upright(image) if turn else image)
        return Prepared(prepared, AS_STORED if tilted and not turn else None)

    def judge(self, inputs: Tensor, *, explain: bool) -> list[Judged]:
        guard = self.guard
        with torch.no_grad():
            features = guard._features(inputs.to(self._device), finite=False)
            verdicts = guard.verdicts(features, unscorable=FLAG)
            told = self._explained(features) if explain else [None] * len(features)
        return rows_of(verdicts, told)

    def _explained(self, features: Tensor) -> list[Sides | None]:
        """The table of boundaries is made for the first that asks, in `warm`."""
        if self._explainer is None:
            self._explainer = Explainer(self.guard)
        return [sides_of(one) for one in self._explainer(features)]

    def class_name(self, index: int) -> str:
        return self.guard.class_name(index)


def judging_of(
    guard: Guard | str | Path,
    *,
    model: str | None = None,
    weights: str | Path | None = None,
    device: str = "auto",
    accept_code_change: bool = False,
) -> Judging:
    """A guard, its file or its name, ready to be served; its model is loaded later, by `Judging.warm`.

    The other arguments are those of `theodolite score`: code is run only if the caller names it as ``model``.
    """
    if not isinstance(guard, Guard):
        guard = Guard.load(guard, model=model, weights=weights, accept_code_change=accept_code_change)
    if guard.loaded is None and guard.provenance is None and (model is not None or weights is not None):
        raise InputError("the guard knows no model: it is served for features, without --model and --weights")
    if guard.loaded is None and guard.provenance is None:
        warnings.warn(
            "the guard knows no model: it is served for features, and refuses pictures",
            TheodoliteWarning,
            stacklevel=2,
        )
    return JudgingGuard(guard, model=model, weights=weights, device=device)


def rows_of(verdicts: Verdicts, sides: Sequence[Sides | None]) -> list[Judged]:
    """A batch's columns as rows; what is flagged follows from the score and each request's own rate."""
    columns = (verdicts.predicted, verdicts.score, verdicts.p_value)
    predicted, score, p_value = (np.asarray(torch.as_tensor(column).cpu()).tolist() for column in columns)
    return [Judged(*row) for row in zip(predicted, score, p_value, sides, strict=True)]
