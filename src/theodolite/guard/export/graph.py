"""What is exported: images or features and a false-alarm rate in, logits and verdicts out."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from ...core.arrays import as_float, as_tensor
from ...features.capture import Capture
from ..calibration import ROUNDING
from ..judge import Judge
from ..model_judge import ModelJudge
from .pixels import PixelGraph

RATE = "false_alarm_rate"
LOGITS = "logits"
COLUMNS = ("predicted", "score", "p_value", "is_ood")


class GuardGraph(nn.Module):
    """A guard as a function of tensors: the columns of its verdicts, after the logits where it has a head.

    ``capture`` is of the guard's model where it takes images; ``pixels`` makes images of pictures. An image
    with NaN or infinity is unscorable, whatever the model makes of it. A graph cannot refuse a rate that so
    few calibration scores cannot promise: it flags everything then, which is noticed.
    """

    def __init__(self, judge: Judge, capture: Capture | None, pixels: PixelGraph | None) -> None:
        super().__init__()
        self.judge = judge
        self.capture = capture
        self.model = None if capture is None else capture.model
        self.pixels = pixels
        self._lowest_rate = judge.calibration.smallest_rate * (1 - ROUNDING)

    @property
    def outputs(self) -> tuple[str, ...]:
        return COLUMNS if self.judge.head is None else (LOGITS, *COLUMNS)

    def forward(self, inputs: Tensor, false_alarm_rate: Tensor) -> tuple[Tensor, ...]:
        features = self._features(inputs if self.pixels is None else self.pixels(inputs))
        said = self.judge.graph(features, false_alarm_rate)
        *columns, is_ood = (as_tensor(column, name) for name, column in said._asdict().items())
        columns.append(is_ood | self._not_promised(false_alarm_rate))
        if self.judge.head is None:
            return tuple(columns)
        return (self.judge.head(as_float(features)), *columns)

    def _not_promised(self, rate: Tensor) -> Tensor:
        return torch.logical_not((rate >= self._lowest_rate) & (rate < 1))

    def _features(self, inputs: Tensor) -> Tensor:
        if self.capture is None:
            return inputs
        whole = torch.isfinite(inputs).flatten(1).all(dim=1)
        return torch.where(whole[:, None], self.capture.recorded(inputs), torch.nan)


def graph_of(guard: ModelJudge, capture: Capture | None, pixels: PixelGraph | None = None) -> GuardGraph:
    """The graph of a guard. It holds a model where it has a capture of one, and no other."""
    bare = copy.copy(guard)
    bare._modules = {**guard._modules, "model": None}
    bare._capture = None
    return GuardGraph(bare, capture, pixels)
