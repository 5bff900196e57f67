"""The part of a guard that is tensors all the way: features in, verdicts out.

Detector, head, calibration scores and false-alarm rate are its modules and buffers, so that all of them move,
are stored and are recorded together: a graph of `torch.jit.trace`, `torch.export` or
`torch.compile` has the calibration inside and gives the same verdicts.
"""

from __future__ import annotations

import copy
import math
from typing import Self

import torch
from torch import Tensor, nn

from ..core.arrays import as_float, require_finite, row_maxima, rows_between
from ..core.errors import InputError
from ..core.graphs import fixed
from ..detectors import Detector
from ..reference.head import Head, Move, keeping_precision
from .by_class import ClassCalibration
from .calibration import Calibration
from .verdicts import NO_CLASS, Verdicts

# Rows whose logits are held at once.
_TILE = 4096


class Judge(nn.Module):
    """A detector, a head and a calibration that nobody else holds, and the rate they are to keep."""

    rate: Tensor

    def __init__(
        self, detector: Detector, calibration: Calibration, head: Head | None, false_alarm_rate: float
    ) -> None:
        super().__init__()
        _require_one_head(detector, head)
        _require_classes(calibration, head)
        self.head: Head | None = copy.deepcopy(head)
        self.detector = detector
        self.calibration = calibration
        self.register_buffer("rate", torch.empty((), dtype=torch.float64))
        self.false_alarm_rate = false_alarm_rate

    @property
    def false_alarm_rate(self) -> float:
        """The largest share of ID samples to flag."""
        return float(self.rate)

    @false_alarm_rate.setter
    def false_alarm_rate(self, rate: float) -> None:
        self.calibration.require_rate(rate)
        self.rate = torch.full_like(self.rate, rate)

    @property
    def width(self) -> int:
        """D: how wide the features are that it judges."""
        width = self.detector.width if self.head is None else self.head.width
        assert width is not None
        return fixed(width)

    def judge(
        self,
        features: Tensor,
        false_alarm_rate: float | None = None,
        *,
        flag: bool,
        logits: Tensor | None = None,
    ) -> Verdicts:
        """Verdicts on features (N, D). With ``flag``, rows without a score are unscorable, not an error.

        ``logits`` that the model has computed save the product with the head.
        """
        rate = self.rate
        if false_alarm_rate is not None:
            self.calibration.require_rate(false_alarm_rate)
            rate = torch.full_like(rate, false_alarm_rate)
        rows = self.detector._checked(features)
        judged = []
        for start in range(0, len(rows), _TILE):
            stop = start + _TILE
            given = None if logits is None else rows_between(logits, start, stop)
            judged.append(self._judge_tile(rows_between(rows, start, stop), given, start, flag=flag))
        predicted, scores = (_joined(parts) for parts in zip(*judged, strict=True))
        return self._verdicts(predicted, scores, rate, whole=not flag)

    def _judge_tile(
        self, tile: Tensor, given: Tensor | None, first_row: int, *, flag: bool
    ) -> tuple[Tensor, Tensor]:
        """Classes and scores from one product with the head, unless it overflows or the score shapes it."""
        logits = self._logits(tile) if given is None else given
        shaped = self.detector.shaping is not None
        if given is None or flag:
            shared = logits if not shaped and _finite(logits) else None
        elif shaped:
            require_finite(given, "logits", first_row)
            shared = None
        else:
            shared = given  # the score looks at them, and refuses what is no number
        if flag:
            scores = self._finite_scores(tile, shared)
        else:
            scores = self.detector._scores(tile, shared, first_row=first_row)
        return _classes(tile, logits), scores

    def graph(self, features: Tensor, rate: Tensor | None = None) -> Verdicts:
        """The same for a graph, without a look at the numbers: rows without a score are always unscorable.

        ``rate`` is another false-alarm rate, a float64 scalar that the graph may take as an input. One that
        the calibration is too small for flags nothing.
        """
        scores = self.detector(features)
        predicted = _classes(features, self._logits(features))
        return self._verdicts(predicted, scores, self.rate if rate is None else rate)

    def _verdicts(self, predicted: Tensor, scores: Tensor, rate: Tensor, *, whole: bool = False) -> Verdicts:
        return verdicts_by(self.calibration, predicted, scores, rate, whole=whole)

    def _logits(self, features: Tensor) -> Tensor | None:
        if self.head is None:
            return None
        logits: Tensor = self.head(as_float(features))
        return logits

    def _finite_scores(self, rows: Tensor, logits: Tensor | None) -> Tensor:
        """Scores of the rows that are finite, as if they were alone; NaN for the others."""
        if _finite(rows):
            return self.detector._scores(rows, logits, refuse=False)
        whole = torch.isfinite(rows).all(dim=1)
        if bool(whole.all()):
            return self.detector._scores(rows, logits, refuse=False)
        scores = torch.full((len(rows),), torch.nan, dtype=as_float(rows[:0]).dtype, device=rows.device)
        if bool(whole.any()):
            scores[whole] = self.detector._scores(rows[whole], None, refuse=False)
        return scores

    def _apply(self, fn: Move, recurse: bool = True) -> Self:
        """Move to another device; the rate keeps its precision."""
        for part in self.children() if recurse else ():
            part._apply(fn)  # type: ignore[no-untyped-call]
        super()._apply(keeping_precision(fn), recurse=False)  # type: ignore[no-untyped-call]
        return self


def verdicts_by(
    calibration: Calibration, predicted: Tensor, scores: Tensor, rate: Tensor, *, whole: bool = False
) -> Verdicts:
    """Verdicts by scores, of which some may be NaN unless they are ``whole``."""
    home = rate.device
    standing = calibration.standing(scores.to(home), predicted.to(home), whole=whole)
    if standing.nowhere is not None:
        predicted = torch.where(standing.nowhere.to(predicted.device), NO_CLASS, predicted)
    return Verdicts(
        predicted=predicted,
        score=scores,
        p_value=calibration(standing),
        is_ood=calibration.flags(standing, rate),
    )


def _finite(numbers: Tensor | None) -> bool:
    """Whether numbers are finite, and so is their sum."""
    return numbers is not None and math.isfinite(float(numbers.sum()))


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _classes(features: Tensor, logits: Tensor | None) -> Tensor:
    """The class of every row; none where there is no head."""
    if logits is None:
        return torch.full_like(features[:, 0], NO_CLASS, dtype=torch.int64)
    return row_maxima(logits)[1]


def _require_classes(calibration: Calibration, head: Head | None) -> None:
    """A calibration by class is of the classes that the head predicts."""
    if isinstance(calibration, ClassCalibration) and (
        head is None or head.classes != len(calibration.groups)
    ):
        has = "no head" if head is None else f"a head of {head.classes} classes"
        raise InputError(
            f"the calibration is by class, of {len(calibration.groups)}, but the guard has {has}"
        )


def _require_one_head(detector: Detector, head: Head | None) -> None:
    """The class that is predicted and the score that judges it must come from the same head."""
    if head is None:
        if detector.uses_logits or detector.width is None:
            raise InputError("the detector has no head: pass head=Head(weight, bias)")
        return
    if detector.head is not None and not detector.head.equals(head):
        raise InputError(
            "head is not the one the detector was fitted with: leave head= out, or fit the detector with it"
        )
    if detector.head is None and detector.width is not None and head.unit_features:
        raise InputError(
            "the detector was fitted without a head, on features of any length, but the head divides them by "
            "their norm: fit it with head="
        )
