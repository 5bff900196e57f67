"""A game against uniform p-values: whoever grows rich in it has evidence that they are not uniform.

Somebody bets on p-values p_1, p_2, …, each before it is known. A bet is a function f ≥ 0 on (0, 1] with
∫ f = 1, and it multiplies the money on it by f(p). If the p-values are independent and uniform, no way of
betting gains on average: the capital S_t is a martingale that begins with S_0 = 1, and Ville's inequality
bounds it for all times at once,

    P(S_t ≥ 1/α for some t) ≤ α

so that whoever raises an alarm at S_t ≥ 1/α may look after every sample, for ever.

**The bets.** Money lies in five accounts: one keeps it (f = 1), one bets on samples that are too familiar
(f = ½ + p), three on strange ones, f = κ·p^(κ−1) for κ = ¼, ½, ¾: the sharpest gains most from a few very
strange samples, the mildest from many that are a little strange.

**Simple Jumper** (Vovk et al. 2021, "Retrain or not retrain", with linear bets there). Before every sample
the share J of the money is spread evenly over the accounts, so that money is everywhere when the stream
changes; then every account bets. The composite is the average of four Jumpers, J = 10⁻⁴, 10⁻³, 10⁻², 10⁻¹: an
average of martingales is one.

**Shiryaev–Roberts.** On a stream without an end the capital of the martingale dwindles while all is well, and
has to be earned back after a change. Here a new Jumper begins with 1 before every sample, and the statistic
R_t is the money of all of them. If all is well R_t − t is a martingale with R_0 = 0; at the time τ when R
first reaches 1/α therefore E[τ] = E[R_τ] ≥ 1/α: **on average at least 1/α samples to a false alarm**, and as
many to the next if one begins anew. A single long stream will see false alarms; their rate is bounded.

Money is held as logarithms of sums and shares of accounts: nothing overflows, and nothing sinks to a zero
that it could not rise from. All functions take any number of games at once, in the leading axes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.arrays import FloatArray
from ..core.errors import InputError

MARTINGALE, SHIRYAEV_ROBERTS = "martingale", "shiryaev-roberts"
KINDS = (MARTINGALE, SHIRYAEV_ROBERTS)
JUMP_RATES = (1e-4, 1e-3, 1e-2, 1e-1)
ACCOUNTS = 5
_KEPT = 1 - np.array(JUMP_RATES)[:, None]
_SPREAD = np.array(JUMP_RATES)[:, None] / ACCOUNTS


class Capital(NamedTuple):
    """Money in a game: the logarithm of each Jumper's, (…, rates), and how its accounts share it."""

    logs: FloatArray
    shares: FloatArray


def require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"kind must be {' or '.join(map(repr, KINDS))}, got {kind!r}")


def opening(kind: str, games: tuple[int, ...] = ()) -> Capital:
    """The money before the first sample: 1 in a martingale, nothing in Shiryaev–Roberts."""
    rates = len(JUMP_RATES)
    begun = 0.0 if kind == MARTINGALE else -np.inf
    return Capital(np.full((*games, rates), begun), np.full((*games, rates, ACCOUNTS), 1 / ACCOUNTS))


def gains(p_values: FloatArray) -> FloatArray:
    """What each account's money is multiplied by, (…, accounts).

    Roots only, which every machine rounds in the same way.
    """
    root = np.sqrt(p_values)
    fourth = np.sqrt(root)
    sharp, middle, mild = 0.25 / (root * fourth), 0.5 / root, 0.75 / fourth
    return np.stack([np.ones_like(p_values), 0.5 + p_values, sharp, middle, mild], axis=-1)


def bet(capital: Capital, gain: FloatArray, kind: str) -> Capital:
    """One sample: in Shiryaev–Roberts a new Jumper joins; jumps; then every account bets."""
    shares = _KEPT * capital.shares + _SPREAD
    logs = capital.logs
    if kind == SHIRYAEV_ROBERTS:
        logs = np.logaddexp(capital.logs, 0.0)
        old = np.exp(capital.logs - logs)[..., None]
        shares = old * shares + (1 - old) / ACCOUNTS
    shares = shares * gain[..., None, :]
    factor = shares.sum(axis=-1)
    return Capital(logs + np.log(factor), shares / factor[..., None])


def log10_evidence(capital: Capital) -> FloatArray:
    """The average of the Jumpers' money, as a power of ten; −∞ where there is none yet."""
    most = capital.logs.max(axis=-1)
    base = np.where(np.isfinite(most), most, 0.0)
    mean = np.exp(capital.logs - base[..., None]).mean(axis=-1)
    with np.errstate(divide="ignore"):
        evidence: FloatArray = (base + np.log(mean)) / np.log(10)
    return evidence


def play(capital: Capital, p_values: FloatArray, kind: str) -> tuple[Capital, FloatArray]:
    """The game over p-values (…, samples): the money after the last, and the evidence after each."""
    multiplied = gains(p_values)
    evidence = np.empty(p_values.shape)
    for place in range(p_values.shape[-1]):
        capital = bet(capital, multiplied[..., place, :], kind)
        evidence[..., place] = log10_evidence(capital)
    return capital, evidence
