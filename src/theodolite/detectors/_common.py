"""What several scores compute of the same tile, by name: in one pass each of it is worked once."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.arrays import as_float, rows_between
from ..core.graphs import fixed
from ..core.once import once
from ..reference.head import unit_rows


def unit(features: Tensor) -> Tensor:
    """Rows divided by their norm."""
    return once(unit_rows, features)


def in_precision(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows in another precision."""
    return rows if rows.dtype == dtype else once(_converted, rows, dtype)


def log_sum_exp(logits: Tensor) -> Tensor:
    """log Σ_c exp(l_c), (n,)."""
    return once(_log_sum_exp, logits)


def evidence(logits: Tensor) -> Tensor:
    """log Σ_c exp(l_c − l̄), (n,): less the mean of the log-probabilities, which no common offset touches."""
    return once(_evidence, logits)


def largest(logits: Tensor) -> Tensor:
    """max_c l_c, (n,)."""
    return once(_largest, logits)


def below_largest(logits: Tensor) -> Tensor:
    """l_c − max l, (n, C)."""
    return once(_below_largest, logits)


def log_odds(logits: Tensor) -> Tensor:
    """log Σ_{c≠p} exp(l_c − l_p), (n,): of all other classes against the predicted one.

    What one less a probability is; the difference itself has no digits left where an answer is certain.
    """
    return once(_log_odds, logits)


def surplus(logits: Tensor) -> Tensor:
    """log Σ_c exp(l_c) − max l = −log of the largest probability, (n,), to every digit however small."""
    return once(_surplus, logits)


def cut(
    values: Tensor, start: int, stop: int, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Some rows as floats on a device."""
    rows = rows_between(values, start, stop).to(device, dtype)
    return as_float(rows) if dtype is None else rows


def total(tile: Tensor) -> Tensor:
    """The sum of all numbers; it is not finite if one of them is not."""
    return once(_total, tile)


def _converted(rows: Tensor, dtype: torch.dtype) -> Tensor:
    return rows.to(dtype)


def _log_sum_exp(logits: Tensor) -> Tensor:
    return torch.logsumexp(logits, dim=1)


def _evidence(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=1).sum(dim=1).div_(-fixed(logits.shape[1]))


def _largest(logits: Tensor) -> Tensor:
    return logits.amax(dim=1)


def _below_largest(logits: Tensor) -> Tensor:
    return logits - largest(logits)[:, None]


def _log_odds(logits: Tensor) -> Tensor:
    top = logits.argmax(dim=1, keepdim=True)
    return torch.logsumexp(below_largest(logits).scatter(1, top, -torch.inf), dim=1)


def _surplus(logits: Tensor) -> Tensor:
    return torch.log1p(log_odds(logits).exp())


def _total(tile: Tensor) -> Tensor:
    return tile.sum()
