"""From scores to verdicts: thresholds on held-out ID scores, with a promise that holds in finite samples.

The conformal p-value of a score s against n calibration scores is

    p(s) = (1 + #{calibration scores ≤ s}) / (n + 1)

If a new ID sample is exchangeable with the calibration samples, P(p ≤ α) ≤ α for every α and every n:
flagging p ≤ α keeps the false-alarm rate at most α, on average over calibration sets. It is a promise about
ID data only; how many OOD samples are caught depends on the score.

Scores are compared in the coarser precision of the two sides. A score that float32 rounds to its bound (an
MSP of 1) ties with calibration scores that were rounded so; in float64 it would lie just below them all.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from ..core.arrays import AnyArray, ArrayLike, FloatArray, as_scores, like
from ..core.errors import InputError
from ..core.graphs import recording
from ..reference.head import Move, keeping_precision

FALSE_ALARM_RATE = 0.05
_BISECTIONS = 50
# α(n + 1) is a whole number in arithmetic before it is one in floating point.
ROUNDING = 1e-9


def check_rate(false_alarm_rate: object) -> None:
    if not isinstance(false_alarm_rate, Real) or not 0 < float(false_alarm_rate) < 1:
        raise InputError(f"the false-alarm rate must lie between 0 and 1, got {false_alarm_rate!r}")


class Standing(NamedTuple):
    """Where scores stand among those of calibration.

    ``rank`` is 1 + the calibration scores that are at most as high, of the ``among`` so many that it is
    compared with, a number where it is the same for all; ``nowhere`` is True for a score that is NaN, and
    None where there is none such.
    """

    rank: Tensor
    among: Tensor | int
    nowhere: Tensor | None


def _in_single(values: Tensor) -> Tensor:
    """Rounded to float32; a number that float32 cannot hold becomes infinite, in the order it had."""
    return values.to(torch.float32).to(torch.float64)


def flagged(p_value: float, false_alarm_rate: float) -> bool:
    """Whether a sample of this p-value is flagged, for whoever has nothing but the two numbers."""
    return p_value < 1 and p_value <= false_alarm_rate * (1 + ROUNDING)


def _highest(false_alarm_rate: float, count: int) -> int:
    """⌊α(n+1)⌋, the highest rank that is flagged, and 0 if there is none.

    Below 1 it is at most n; the slack, which makes 0.05 · 20 a whole 1, must not lift it above.
    """
    return min(math.floor(false_alarm_rate * (count + 1) + ROUNDING), count)


def require_enough(false_alarm_rate: float, count: int) -> int:
    """⌊α(n+1)⌋, the highest rank that is flagged; refused where there is none."""
    check_rate(false_alarm_rate)
    allowed = _highest(false_alarm_rate, count)
    if allowed < 1:
        enough = math.ceil(1 / false_alarm_rate - 1 - ROUNDING)
        raise InputError(
            f"{count} calibration scores cannot support a false-alarm rate of "
            f"{false_alarm_rate}: at least {enough} are needed. "
            "Hold out more ID data, or ask for a larger rate"
        )
    return allowed


def _lowest_share(ascending: Tensor, false_alarm_rate: float) -> float | None:
    """The share of scores that are the lowest, where it is more than the rate may flag."""
    lowest = int(torch.searchsorted(ascending, ascending[:1], right=True))
    return lowest / len(ascending) if lowest > max(1, _highest(false_alarm_rate, len(ascending))) else None


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

    >>> calibration = th.Calibration(np.arange(99.0))  # held-out ID scores
    >>> calibration.p_values(np.array([50.0, -1.0]))
    array([0.52, 0.01])
    >>> calibration.is_ood(np.array([50.0, -1.0]), false_alarm_rate=0.05)
    array([False,  True])
    """

    sorted_scores: Tensor

    def __init__(self, id_scores: ArrayLike) -> None:
        super().__init__()
        scores = torch.from_numpy(as_scores(id_scores, "id_scores"))
        self.register_buffer("sorted_scores", scores.sort().values)
        self._count = len(self.sorted_scores)
        self._single = bool((_in_single(scores) == scores).all())

    def __len__(self) -> int:
        return self._count

    @property
    def scores(self) -> FloatArray:
        """The calibration scores, from the strangest sample to the most familiar one."""
        values: FloatArray = self.sorted_scores.cpu().numpy()
        return values

    # ------------------------------------------------------------------ tensors, unchecked, for graphs

    def comparable(self, scores: Tensor) -> Tensor:
        """Scores in float64, with no more digits than the calibration scores were computed in."""
        values = scores.to(torch.float64)
        return _in_single(values) if self._single and scores.dtype == torch.float64 else values

    def forward(self, standing: Standing) -> Tensor:
        """p-values in float64; NaN for a score that is NaN."""
        p_values = standing.rank.to(torch.float64) / (standing.among + 1)
        return p_values if standing.nowhere is None else p_values.masked_fill(standing.nowhere, torch.nan)

    def flags(self, standing: Standing, rate: Tensor) -> Tensor:
        """True where p ≤ ``rate``, a float64 scalar: rank ≤ ⌊rate · (n + 1)⌋; and where there is no score."""
        rank, among, nowhere = standing
        if isinstance(among, int):
            low = rank <= _highest(float(rate), among)
        else:
            low = rank <= torch.minimum(torch.floor(rate * (among + 1) + ROUNDING), among)
        return low if nowhere is None else nowhere | low

    def standing(self, scores: Tensor, predicted: Tensor, *, whole: bool = False) -> Standing:  # noqa: ARG002
        """Where scores, on the calibration's device, stand among those of calibration.

        ``whole``: none of them is NaN, as somebody has seen who need not be told again.
        """
        values = self.comparable(scores)
        known = self.sorted_scores
        if not self._single and scores.dtype != torch.float64:
            known = _in_single(known)
        rank = 1 + torch.searchsorted(known, values, right=True)
        # A graph takes the rate as it comes, and does not know it as a number.
        among = torch.full_like(rank, self._count) if recording() else self._count
        return Standing(rank, among, None if whole else torch.isnan(values))

    # ------------------------------------------------------------------ scores, checked

    def p_values(self, scores: AnyArray, predicted: ArrayLike | None = None) -> AnyArray:
        """Conformal p-values: small means less in-distribution than nearly all calibration samples.

        ``predicted`` are the classes of the scores; a calibration by class needs them.
        """
        return like(self.forward(self._standing(scores, predicted)), scores)

    def is_ood(
        self,
        scores: AnyArray,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        predicted: ArrayLike | None = None,
    ) -> AnyArray:
        """True where a sample is flagged; at most ``false_alarm_rate`` of ID samples will be."""
        self.require_rate(false_alarm_rate)
        rate = torch.tensor(false_alarm_rate, dtype=torch.float64, device=self.sorted_scores.device)
        return like(self.flags(self._standing(scores, predicted), rate), scores)

    def threshold(self, false_alarm_rate: float = FALSE_ALARM_RATE, predicted: int | None = None) -> float:
        """The λ for which ``score < λ`` is the same verdict as p-value ≤ ``false_alarm_rate``.

        ``predicted`` is the class of the score; a calibration by class needs it.
        """
        scores = self.peers(predicted)
        return float(scores[require_enough(false_alarm_rate, len(scores)) - 1])

    def rate_interval(
        self,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        *,
        level: float = 0.9,
        predicted: int | None = None,
    ) -> tuple[float, float]:
        """Where the rate of this very calibration lies, with probability ``level``.

        The promise is kept on average over calibration sets; one set of n scores has a rate that is
        distributed as Beta(k, n + 1 − k), k = ⌊α(n + 1)⌋, for scores without ties.
        """
        if not 0 < level < 1:
            raise InputError(f"level must lie between 0 and 1, got {level}")
        count = len(self.peers(predicted))
        allowed, tail = require_enough(false_alarm_rate, count), (1 - level) / 2
        low, high = (_beta_quantile(share, allowed, count) for share in (tail, 1 - tail))
        return low, high

    def peers(self, predicted: int | None = None) -> Tensor:  # noqa: ARG002
        """The sorted calibration scores that a sample of this class is compared with."""
        return self.sorted_scores

    @property
    def representatives(self) -> tuple[int | None, ...]:
        """One class of each threshold; here there is one, whatever the class."""
        return (None,)

    @property
    def pooled(self) -> tuple[int, ...]:
        """The classes that share a threshold because each has too few scores; here none is counted."""
        return ()

    @property
    def smallest_p_value(self) -> float:
        """What the strangest of all samples would get."""
        return 1 / (len(self) + 1)

    @property
    def smallest_rate(self) -> float:
        """The lowest false-alarm rate that can be promised to every sample."""
        return 1 / (len(self) + 1)

    def require_rate(self, false_alarm_rate: float) -> None:
        """Refuse a rate that so few scores cannot promise."""
        require_enough(false_alarm_rate, len(self))

    def doubt(self, false_alarm_rate: float) -> str | None:
        """Why a rate catches next to nothing, where more scores than it may flag share the lowest one.

        Such samples are flagged all or not at all, and the promise allows only the latter.
        """
        found = [(one, _lowest_share(self.peers(one), false_alarm_rate)) for one in self.representatives]
        shares = {one: share for one, share in found if share is not None}
        if not shares:
            return None
        one = max(shares, key=lambda group: shares[group] or 0)
        peers = self.peers(one)
        of = "" if one is None else f" of class {one} (in {len(shares)} of {len(found)} groups of classes)"
        return (
            f"{100 * shares[one]:.1f} % of the {len(peers):,} calibration samples{of} have the lowest score, "
            f"{float(peers[0]):g}: at this rate, {false_alarm_rate:g}, nothing that scores like them can be "
            f"flagged, only what scores lower than every one of them. Does the score say anything about such "
            f"features? If it does, ask for a larger rate, or take another score"
        )

    def _standing(self, scores: ArrayLike, predicted: ArrayLike | None) -> Standing:
        values = torch.from_numpy(as_scores(scores, "scores")).to(self.sorted_scores.device)
        return self.standing(values, self._classes(predicted, len(values)).to(values.device))

    def _classes(self, predicted: ArrayLike | None, count: int) -> Tensor:  # noqa: ARG002
        return torch.zeros(count, dtype=torch.int64)

    def _apply(self, fn: Move, recurse: bool = True) -> Self:
        """Move to another device; the scores keep their precision."""
        super()._apply(keeping_precision(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        return f"{len(self):,} scores"
