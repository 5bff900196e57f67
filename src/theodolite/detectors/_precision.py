"""Where float32 has too few digits for a score, and what is done about it.

A score marks such rows (`unresolved`), and `Detector` works them again in float64 from the features. The
limits are far from what features of networks do (on four data sets: `reach` at most 2.3 times ‖z − μ‖, unit
features spread by 0.47 and more), so ordinary rows are worked once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..core.arrays import rows_named
from ..core.errors import InputError
from ..geometry.triangle import over_norm
from ..reference.head import Head, unit_rows

# How many times ‖z − μ‖ the numbers may be that it is the difference of.
_BLUR_LIMIT = 16.0
# Unit rows are crowded if 1 − ‖mean‖², their mean squared distance from it, is below this: their rounding
# would be seen in the directions in which they vary least.
_CROWDED = 2.0**-8


def unresolved(scores: Tensor, faint: Tensor) -> Tensor:
    """The scores, NaN for the rows that float32 cannot resolve; in float64 as they are."""
    return scores if scores.dtype == torch.float64 else scores.masked_fill(faint, torch.nan)


def resolved_ratio(values: Tensor, norm: Tensor, faint: Tensor) -> Tensor:
    """`over_norm`, NaN for the rows that float32 cannot resolve.

    In float32 a norm of 0 needs no care: the quotient is not finite, which has the row worked again as well.
    """
    if values.dtype == torch.float64:
        return over_norm(values, norm)
    ratio = torch.div(values, norm).masked_fill_(faint, torch.nan)
    return ratio.masked_fill_(norm == torch.inf, torch.nan)


def reach(centre: Tensor, head: Head | None = None) -> float:
    """The length that features and logits are rounded at near ``centre``: ‖μ‖, and the bias in feature units.

    Logits are sums of products at most ‖w‖·‖z‖ and of a bias: a bias b weighs as a feature of length |b|/‖w‖.
    """
    length = float(torch.linalg.vector_norm(centre.double()))
    if head is None:
        return length
    steepest = float(torch.linalg.vector_norm(head.weight.double(), dim=1).max())
    return length if steepest == 0 else length + float(head.bias.abs().max()) / steepest


def blurred(distance: Tensor, reach: float) -> Tensor:
    """Rows so close to the centre that little but rounding is left of their difference."""
    return distance < reach / _BLUR_LIMIT


def crowded(mean: Tensor) -> bool:
    """Whether unit rows with this mean differ so little that their float32 rounding matters."""
    return float(1 - mean.double().square().sum()) < _CROWDED


_OUT_OF_RANGE = (
    "numbers so large, or so small, that their squares and products leave the range of float64. Look for "
    "what made them, or scale features and head"
)


@contextmanager
def within_float64(name: str) -> Iterator[None]:
    """Around a fit: what fails because numbers left the range of float64 is an error about them."""
    try:
        yield
    except (torch.linalg.LinAlgError, OverflowError) as error:  # type: ignore[attr-defined]
        raise InputError(f"{name} cannot be fitted: features or head hold {_OUT_OF_RANGE}") from error


def require_finite_state(detector: nn.Module) -> None:
    """Refuse a fit that learnt something that is not a number."""
    for name, buffer in detector.named_buffers():
        if buffer.is_floating_point() and not bool(torch.isfinite(buffer).all()):
            raise OverflowError(f"{name} holds NaN or infinity")


def require_scores(scores: Tensor, name: str, first_row: int = 0) -> Tensor:
    """The scores; refused if rows have none: legal features, with which float64 overflowed."""
    lost = torch.isnan(scores).nonzero().flatten()
    if len(lost):
        where = rows_named(lost + first_row)
        raise InputError(
            f"{name} has no score for {where} of features: they or the head hold {_OUT_OF_RANGE}"
        )
    return scores


def unit_view(rows: Tensor) -> Tensor:
    """Unit rows of a batch; in float64 where they are crowded."""
    unit = unit_rows(rows)
    if rows.dtype != torch.float64 and crowded(unit.mean(dim=0, dtype=torch.float64)):
        return unit_rows(rows.double())
    return unit
