"""Flagging a batch as a whole: of those flagged, how many may be false alarms (Benjamini and Hochberg 1995).

A false-alarm rate α bounds the share of ID samples that are flagged; where nearly all samples are ID, most of
what it flags can be ID all the same. The false discovery rate q bounds the expected share of ID samples among
those flagged: with the p-values of m samples in order, p₁ ≤ … ≤ p_m, the first k are flagged, k the largest
with

    p_k ≤ q · k / m

Conformal p-values of one batch share their calibration scores and are not independent, but positively
dependent in the sense that the procedure needs (Bates et al. 2023, arXiv:2104.08279): if the batch's ID
samples are exchangeable with the calibration data and independent of the others, the expectation over batches
and calibration sets is at most q · m₀ / m, m₀ the ID samples. It is no promise for one batch, nor for batches
joined or picked after a look at them; and a sample's verdict depends on the others it came with.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import torch
from torch import Tensor

from ..core.errors import InputError, TheodoliteWarning
from .calibration import Calibration
from .verdicts import ID, OOD, PathVerdict


def check_rules(fdr: float | None, false_alarm_rate: float | None) -> None:
    """A batch is flagged by one rule or by the other."""
    if fdr is None:
        return
    if not 0 < fdr < 1:
        raise InputError(f"fdr, the false discovery rate, must lie between 0 and 1, got {fdr}")
    if false_alarm_rate is not None:
        raise InputError("fdr and the false-alarm rate are two rules to flag by: pass one of them")


def discoveries(p_values: Tensor, fdr: float, calibration: Calibration) -> Tensor:
    """True for the samples that are flagged together. Those without a p-value (NaN) are not tested.

    Where not even the smallest p-value that the calibration can give would do for a single strange sample,
    it is said.
    """
    tested = ~torch.isnan(p_values)
    count = int(tested.sum())
    _require_enough(count, fdr, calibration)
    ordered, order = torch.where(tested, p_values.double(), torch.inf).sort(stable=True)
    steps = torch.arange(1, len(p_values) + 1, dtype=torch.float64, device=p_values.device)
    below = (ordered <= fdr * steps / max(1, count) * (1 + 1e-12)).nonzero()
    flagged = torch.zeros_like(tested)
    if len(below):
        flagged[order[: int(below[-1]) + 1]] = True
    return flagged


def together(
    batches: Iterable[Sequence[PathVerdict]], fdr: float, calibration: Calibration
) -> Iterator[list[PathVerdict]]:
    """The same for rows: when the last has come, all of them with the verdict each has among them."""
    rows = list(chain.from_iterable(batches))
    values = [torch.nan if row.p_value is None else row.p_value for row in rows]
    flagged = discoveries(torch.tensor(values, dtype=torch.float64), fdr, calibration).tolist()
    yield [
        row if row.p_value is None else row._replace(verdict=OOD if found else ID)
        for row, found in zip(rows, flagged, strict=True)
    ]


def _require_enough(count: int, fdr: float, calibration: Calibration) -> None:
    """Too few calibration scores find nothing, which must not look like nothing to be found."""
    smallest = calibration.smallest_p_value
    if count and smallest <= fdr < calibration.smallest_rate:
        warnings.warn(
            f"of the class with the fewest calibration scores no p-value is below "
            f"{calibration.smallest_rate:.3g}, so that none of its samples can be flagged at fdr={fdr:g}",
            TheodoliteWarning,
            stacklevel=3,
        )
    if not count or smallest <= fdr / count:
        return
    if smallest > fdr:
        raise InputError(
            f"the smallest p-value that the calibration can give is {smallest:.3g}, so that no sample could "
            f"be flagged at fdr={fdr:g}: calibrate on more data, or ask for a larger rate"
        )
    least = -int(-smallest * count // fdr)
    warnings.warn(
        f"the smallest p-value that the calibration can give is {smallest:.3g}: of a batch of {count:,} at "
        f"fdr={fdr:g} at least {least:,} must be that strange before any is flagged. Calibrate on more data, "
        f"or judge smaller batches",
        TheodoliteWarning,
        stacklevel=3,
    )
