"""From scores to verdicts: thresholds on held-out ID scores, with a promise that holds in finite samples.

The conformal p-value of a score s against n calibration scores is

    p(s) = (1 + #{calibration scores ≤ s}) / (n + 1)

If a new ID sample is exchangeable with the calibration samples, P(p ≤ α) ≤ α for every α and every n:
flagging p ≤ α keeps the false-alarm rate at most α, on average over calibration sets. It is a promise about
ID data only; how many OOD samples are caught depends on the score.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Self

import torch
from torch import Tensor, nn

from ..core.arrays import AnyArray, ArrayLike, FloatArray, as_scores, like
from ..core.errors import InputError
from ..reference.head import Move, keeping_precision

FALSE_ALARM_RATE = 0.05
_BISECTIONS = 50


def check_rate(false_alarm_rate: object) -> None:
    if not isinstance(false_alarm_rate, Real) or not 0 < float(false_alarm_rate) < 1:
        raise InputError(f"the false-alarm rate must lie between 0 and 1, got {false_alarm_rate!r}")


def _beta_quantile(share: float, rank: int, count: int) -> float:
    """The quantile of Beta(k, n + 1 − k): where n uniform numbers have k below with probability ``share``.

    Its distribution function is a binomial tail, P(Binomial(n, x) ≥ k); bisected.
    """
    hits = torch.arange(rank, count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(hits + 1) - torch.lgamma(count - hits + 1)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        logs = ways + hits * math.log(middle) + (count - hits) * math.log1p(-middle)
        low, high = (middle, high) if float(logs.exp().sum()) < share else (low, middle)
    return (low + high) / 2


class Calibration(nn.Module):
    """Held-out ID scores, turned into p-values and verdicts.

    The scores must come from ID samples that the detector was not fitted on. They are a buffer, sorted, in
    float64: a graph that PyTorch records of a guard has them inside.
    """

    sorted_scores: Tensor

    def __init__(self, id_scores: ArrayLike) -> None:
        super().__init__()
        scores = torch.from_numpy(as_scores(id_scores, "id_scores"))
        self.register_buffer("sorted_scores", scores.sort().values)
        self._count = len(self.sorted_scores)

    def __len__(self) -> int:
        return self._count

    @property
    def scores(self) -> FloatArray:
        """The calibration scores, from the strangest sample to the most familiar one."""
        values: FloatArray = self.sorted_scores.cpu().numpy()
        return values

    def p_values(self, scores: AnyArray) -> AnyArray:
        """Conformal p-values: small means less in-distribution than nearly all calibration samples."""
        return like(self.forward(self._checked(scores)), scores)

    def forward(self, scores: Tensor) -> Tensor:
        """The p-values in float64, of tensors on the calibration's device and without a check; NaN of NaN."""
        values = scores.to(torch.float64)
        at_most = torch.searchsorted(self.sorted_scores, values, right=True)
        return torch.where(torch.isnan(values), values, (1 + at_most).to(torch.float64) / (self._count + 1))

    def threshold(self, false_alarm_rate: float = FALSE_ALARM_RATE) -> float:
        """The λ for which ``score < λ`` is the same verdict as p-value ≤ ``false_alarm_rate``."""
        return float(self.sorted_scores[self._allowed(false_alarm_rate) - 1])

    def is_ood(self, scores: AnyArray, false_alarm_rate: float = FALSE_ALARM_RATE) -> AnyArray:
        """True where a sample is flagged; at most ``false_alarm_rate`` of ID samples will be."""
        return like(self._checked(scores) < self.threshold(false_alarm_rate), scores)

    def rate_interval(
        self, false_alarm_rate: float = FALSE_ALARM_RATE, *, level: float = 0.9
    ) -> tuple[float, float]:
        """Where the rate of this very calibration lies, with probability ``level``.

        The promise is kept on average over calibration sets; one set of n scores has a rate that is
        distributed as Beta(k, n + 1 − k), k = ⌊α(n + 1)⌋, for scores without ties.
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        allowed, tail = self._allowed(false_alarm_rate), (1 - level) / 2
        low, high = (_beta_quantile(share, allowed, len(self)) for share in (tail, 1 - tail))
        return low, high

    def _checked(self, scores: ArrayLike) -> Tensor:
        return torch.from_numpy(as_scores(scores, "scores")).to(self.sorted_scores.device)

    def _apply(self, fn: Move, recurse: bool = True) -> Self:
        """Move to another device; the scores keep their precision."""
        super()._apply(keeping_precision(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        return f"{len(self):,} scores"

    def _allowed(self, false_alarm_rate: float) -> int:
        """⌊α(n+1)⌋: the rank below which a new score is flagged."""
        check_rate(false_alarm_rate)
        allowed = math.floor(false_alarm_rate * (len(self) + 1) + 1e-9)
        if allowed < 1:
            enough = math.ceil(1 / false_alarm_rate - 1 - 1e-9)
            raise InputError(
                f"{len(self)} calibration scores cannot support a false-alarm rate of "
                f"{false_alarm_rate}: at least {enough} are needed. "
                "Hold out more ID data, or ask for a larger rate"
            )
        return allowed
