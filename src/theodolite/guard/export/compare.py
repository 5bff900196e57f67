"""The graph beside PyTorch: every column of the verdicts on every input, or the file is not written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...core.errors import ExportError
from ..calibration import Calibration
from ..verdicts import Verdicts
from .graph import LOGITS
from .record import REAL, Compared

Array: TypeAlias = npt.NDArray[Any]
Runner: TypeAlias = Callable[[Array, float | None], dict[str, Array]]

# How far a score may be off, relative to itself or to the median calibration score, whichever is larger.
TOLERANCE = 1e-5
# Calibration scores as near to each other as this are a tie to float32, and count as one rank: so are
# probabilities rounded, of logits up to 32.
_TIE = 2.0**-18
# How many times the unrest of a score, that of one step in the last digit, a difference may be.
_UNREST = 16
_BATCHES = (1, 2, 7, 64)
_OTHER_RATES, _SOME = (0.2, 0.5), 7


@dataclass(frozen=True)
class Comparison:
    """A graph that shall give the verdicts of a guard with this calibration and false-alarm rate.

    ``unrest`` says of inputs by how much their scores move when the inputs move in their last digit. No
    float32 computation is nearer than that, ours no more than the graph's. Real inputs are not excused by it.
    ``bias`` is the largest of the head: logits are rounded at its size, also where they cancel.
    """

    run: Runner
    calibration: Calibration
    rate: float
    unrest: Callable[[Tensor], Array] | None = None
    bias: float = 0.0
    tolerance: float = TOLERANCE

    def on(self, name: str, inputs: Tensor, expected: Verdicts) -> Compared:
        """Compare all columns; raises `ExportError` with the worst row."""
        given = inputs.numpy()
        found = _columns(self.run, given)
        right = {column: torch.as_tensor(values).numpy() for column, values in expected._asdict().items()}
        known = ~np.isnan(right["score"])
        self._require(
            np.array_equal(np.isnan(found["score"]), ~known), name, "which rows have a score", found, right
        )
        self._require_own_verdicts(name, given, found)
        tied = self._tied_classes(name, found, right) & known
        here = known & ~tied
        difference, beyond = self._differences(found, right, here), 0
        for row in np.flatnonzero(difference > self.tolerance).tolist():
            apart = abs(float(found["score"][row]) - float(right["score"][row]))
            excused = self.unrest is not None and name != REAL
            if excused and self.unrest is not None:
                excused = apart <= _UNREST * float(self.unrest(inputs[row : row + 1])[0])
            self._require(excused, name, "the score", found, right, row)
            here[row], beyond = False, beyond + 1
        ranks = self._moved(name, found, right, here)
        changed = (found["is_ood"] != right["is_ood"])[here]
        return Compared(
            inputs=name,
            rows=len(given),
            score_difference=float(difference.max(initial=0)),
            ranks=int(ranks.max(initial=0)),
            verdicts=int(changed.sum()),
            classes=int(tied.sum()),
            beyond=beyond,
        )

    def _require_own_verdicts(self, name: str, given: Array, found: dict[str, Array]) -> None:
        """p-values and flags must be exactly those that the calibration gives to the graph's own scores."""
        some = given[:_SOME]
        rates = [rate for rate in _OTHER_RATES if rate > self.calibration.smallest_rate]
        self._require_own(name, found, self.rate)
        for rate in rates:
            self._require_own(name, self.run(some, rate), rate)
        everything = self.run(some, self.calibration.smallest_rate / 2)["is_ood"]
        self._require(bool(everything.all()), name, "that a rate without a promise flags all", found, found)

    def _require_own(self, name: str, found: dict[str, Array], rate: float) -> None:
        scores, classes = torch.from_numpy(found["score"]), torch.from_numpy(found["predicted"])
        standing = self.calibration.standing(scores, classes)
        flags = self.calibration.flags(standing, torch.tensor(rate, dtype=torch.float64))
        right = {**found, "p_value": self.calibration(standing).numpy(), "is_ood": flags.numpy()}
        exact = np.array_equal(found["p_value"], right["p_value"], equal_nan=True)
        self._require(exact, name, "a p-value of its own score", found, right)
        exact = np.array_equal(found["is_ood"], right["is_ood"])
        self._require(exact, name, f"a verdict on its own score at the rate {rate:g}", found, right)

    def _differences(self, found: dict[str, Array], right: dict[str, Array], here: Array) -> Array:
        ours, theirs = right["score"].astype(np.float64), found["score"].astype(np.float64)
        usual = float(np.median(np.abs(self.calibration.scores)))
        size = np.maximum(np.abs(ours), usual)
        with np.errstate(invalid="ignore"):
            apart = np.where(ours == theirs, 0.0, np.abs(ours - theirs) / np.where(size > 0, size, 1.0))
        return np.where(here, apart, 0.0)

    def _tied_classes(self, name: str, found: dict[str, Array], right: dict[str, Array]) -> Array:
        """Rows of another class; only where the two logits are the same but for rounding."""
        other = found["predicted"] != right["predicted"]
        for row in np.flatnonzero(other).tolist():
            logits = found.get(LOGITS)
            classes = [int(found["predicted"][row]), int(right["predicted"][row])]
            near = logits is not None and min(classes) >= 0
            if near and logits is not None:
                gap = abs(float(logits[row, classes[0]]) - float(logits[row, classes[1]]))
                near = gap <= self.tolerance * max(float(np.abs(logits[row]).max()), self.bias)
            self._require(near, name, "the class", found, right, row)
        return np.asarray(other)

    def _moved(self, name: str, found: dict[str, Array], right: dict[str, Array], here: Array) -> Array:
        """By how many ranks p-values moved: at most one, or over calibration scores that are one tie."""
        rank = [
            self.calibration.standing(
                torch.from_numpy(side["score"]).double(), torch.from_numpy(side["predicted"])
            ).rank.numpy()
            for side in (found, right)
        ]
        moved = np.where(here, np.abs(rank[0] - rank[1]), 0)
        for row in np.flatnonzero(moved > 1).tolist():
            ends = sorted(float(side["score"][row]) for side in (found, right))
            scores = self.calibration.scores
            passed = scores[(scores >= ends[0]) & (scores <= ends[1])]
            spread = float(passed.max() - passed.min())
            tie = spread <= _TIE * max(abs(ends[0]), abs(ends[1]))
            self._require(
                tie, name, f"the rank among the calibration scores, by {moved[row]},", found, right, row
            )
        return moved

    def _require(
        self,
        holds: bool,
        name: str,
        what: str,
        found: dict[str, Array],
        right: dict[str, Array],
        row: int | None = None,
    ) -> None:
        if not holds:
            raise ExportError(
                columns_differ(name, what, row if row is not None else _first(found, right), found, right)
            )


def _columns(run: Runner, given: Array) -> dict[str, Array]:
    """All columns, computed in batches of one, two, seven and more rows."""
    parts = [run(given[start:stop], None) for start, stop in _batches(len(given))]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _batches(rows: int) -> Iterator[tuple[int, int]]:
    start = 0
    for size in _BATCHES:
        if start < rows:
            yield start, min(rows, start + size)
            start += size
    while start < rows:
        yield start, min(rows, start + 256)
        start += 256


def _first(found: dict[str, Array], right: dict[str, Array]) -> int:
    """A row in which something differs."""
    for column in set(found) & set(right):
        one, other = found[column], right[column]
        differ = (one != other) & ~((one != one) & (other != other))
        if one.shape == other.shape and differ.any():
            return int(np.flatnonzero(differ.reshape(len(one), -1).any(axis=1))[0])
    return 0


def columns_differ(name: str, what: str, row: int, found: dict[str, Array], right: dict[str, Array]) -> str:
    def said(side: dict[str, Array]) -> str:
        columns = ("predicted", "score", "p_value", "is_ood")
        return ", ".join(f"{column} {side[column][row]!s}" for column in columns)

    return (
        f"the exported graph differs from PyTorch in {what} (inputs: {name}, row {row}): it says "
        f"{said(found)}; PyTorch says {said(right)}. Nothing was written"
    )
