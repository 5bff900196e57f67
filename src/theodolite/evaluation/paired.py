"""Whether one score is better than another on the same samples: paired bootstrap differences.

A replicate draws ID samples and samples of every OOD set with replacement, once for all scores: what makes a
sample hard makes it hard for both scores, and cancels in the difference. Fitted scores are taken as they
are; what another fit would change is no part of the interval.

    difference   metric of a score − metric of the one it is held against
    low, high    percentile interval of the difference over replicates
    p_value      two-sided: min(1, 2 · min(1 + #{d* ≤ 0}, 1 + #{d* ≥ 0}) / (replicates + 1)), the level at
                 which the percentile interval begins to hold 0

p-values are of single comparisons; `holm` corrects those of a family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.arrays import ArrayLike, FloatArray, as_scores
from ..core.errors import InputError, did_you_mean
from .curve import Counts, Curve, check_share
from .metrics import Metric
from .metrics import metric as metric_called

Places: TypeAlias = npt.NDArray[np.intp]
# ID scores and OOD scores of one detector.
ScorePair: TypeAlias = tuple[ArrayLike, ArrayLike]
_REPLICATES_AT_ONCE = 64
# Shares are whole numbers of samples; what differs by less is the same up to rounding.
_NOTHING = 1e-12
_OOD = "ood"
_KNOWN = "id"


class Difference(NamedTuple):
    """A difference of two metrics (shares), its interval, and the p-value of there being none."""

    value: float
    low: float
    high: float
    p_value: float


class Differences(NamedTuple):
    """Of one score and metric: on every OOD set, and of the averages over them."""

    sets: Mapping[str, Difference]
    average: Difference


def paired_bootstrap(
    first: ScorePair,
    second: ScorePair,
    metric: str = "fpr95",
    *,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference:
    """The metric of the first score minus that of the second; each is (ID scores, OOD scores), row by row."""
    scores = {
        name: {
            _KNOWN: as_scores(known, f"ID scores of the {name}"),
            _OOD: as_scores(ood, f"OOD scores of the {name}"),
        }
        for name, (known, ood) in (("first", first), ("second", second))
    }
    found = paired_differences(
        scores, "second", known=_KNOWN, metrics=[metric], level=level, replicates=replicates, seed=seed
    )
    return found["first"][metric].average


def paired_differences(
    scores: Mapping[str, Mapping[str, FloatArray]],
    against: str,
    *,
    known: str,
    metrics: Sequence[str],
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> dict[str, dict[str, Differences]]:
    """Of every other score held against one, by score and metric; all from the same draws.

    ``scores`` are by detector and set, the rows of a set in the same order for all; ``known`` is the ID set.
    O(scores · replicates · samples).
    """
    measures = [metric_called(name) for name in metrics]
    if replicates < 1:
        raise InputError(f"replicates must be at least 1, got {replicates}")
    tail = (1 - check_share(level, "level")) / 2
    _require_pairs(scores, against, known)
    rng = np.random.default_rng(seed)
    names = [name for name in scores[against] if name != known]
    views = {label: [_Rows.of(sets[known], sets[name]) for name in names] for label, sets in scores.items()}
    sizes = [len(scores[against][name]) for name in (known, *names)]
    blocks = [
        _measured(views, [_drawn(size, rng, count) for size in sizes], measures)
        for count in _block_sizes(replicates)
    ]
    whole = _measured(views, [np.ones((1, size)) for size in sizes], measures)
    drawn = {label: np.concatenate([block[label] for block in blocks], axis=-1) for label in views}
    others = [label for label in views if label != against]
    apart = {label: (whole[label] - whole[against], drawn[label] - drawn[against]) for label in others}
    return {
        label: {name: _differences(names, value[at], values[at], tail) for at, name in enumerate(metrics)}
        for label, (value, values) in apart.items()
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: rejecting what is below α here errs anywhere with a chance of at most α.

    The i-th smallest of m becomes max over j ≤ i of (m − j + 1) · p_(j), and at most 1.
    """
    order = np.argsort(p_values, kind="stable")
    count, highest = len(p_values), 0.0
    corrected = [0.0] * count
    for place, index in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        corrected[index] = highest
    return corrected


class _Rows(NamedTuple):
    """Where ID and OOD rows stand among the distinct scores of both, from the highest down."""

    levels: int
    parts: tuple[tuple[Places, Places, Places], ...]

    @classmethod
    def of(cls, id_scores: FloatArray, ood_scores: FloatArray) -> _Rows:
        levels, where = np.unique(-np.concatenate([id_scores, ood_scores]), return_inverse=True)
        split = np.split(where.ravel(), [len(id_scores)])
        parts = []
        for places in split:
            order = np.argsort(places, kind="stable")
            distinct, starts = np.unique(places[order], return_index=True)
            parts.append((order, starts, distinct))
        return cls(len(levels), tuple(parts))

    def curve(self, *weights: Counts) -> Curve:
        """The curve in which every row counts as often as its weight; a leading axis holds replicates."""
        counts = []
        for drawn, (order, starts, distinct) in zip(weights, self.parts, strict=True):
            part = np.zeros((len(drawn), self.levels))
            part[:, distinct] = np.add.reduceat(drawn[:, order], starts, axis=1)
            counts.append(part)
        return Curve(*counts)


def _measured(
    views: Mapping[str, Sequence[_Rows]], weights: Sequence[Counts], measures: Sequence[Metric]
) -> dict[str, Counts]:
    """By score: metric × OOD set × replicate."""
    found = {}
    for label, rows in views.items():
        curves = [view.curve(weights[0], strange) for view, strange in zip(rows, weights[1:], strict=True)]
        found[label] = np.stack([np.stack([known.of(seen) for seen in curves]) for known in measures])
    return found


def _differences(names: Sequence[str], value: Counts, drawn: Counts, tail: float) -> Differences:
    """From differences by OOD set (and replicate)."""
    sets = {name: _difference(value[at], drawn[at], tail) for at, name in enumerate(names)}
    return Differences(sets, _difference(value.mean(axis=0), drawn.mean(axis=0), tail))


def _difference(value: Counts, drawn: Counts, tail: float) -> Difference:
    low, high = np.quantile(drawn, [tail, 1 - tail])
    beyond = 1 + min(np.count_nonzero(drawn <= _NOTHING), np.count_nonzero(drawn >= -_NOTHING))
    return Difference(float(value[0]), float(low), float(high), min(1.0, 2 * beyond / (len(drawn) + 1)))


def _drawn(size: int, rng: np.random.Generator, replicates: int) -> Counts:
    """How often each row is drawn, with replacement, in each replicate."""
    return rng.multinomial(size, np.full(size, 1 / size), size=replicates).astype(np.float64)


def _block_sizes(replicates: int) -> list[int]:
    starts = range(0, replicates, _REPLICATES_AT_ONCE)
    return [min(_REPLICATES_AT_ONCE, replicates - start) for start in starts]


def _require_pairs(scores: Mapping[str, Mapping[str, FloatArray]], against: str, known: str) -> None:
    """Refuse scores that cannot be of the same samples."""
    if against not in scores:
        raise InputError(
            f"no score is called {against!r}{did_you_mean(against, list(scores))} "
            f"There are: {', '.join(scores)}"
        )
    expected = {name: len(values) for name, values in scores[against].items()}
    if known not in expected or len(expected) < 2:
        raise InputError(f"scores of {against} need the ID set {known!r} and at least one OOD set")
    for label, sets in scores.items():
        found = {name: len(values) for name, values in sets.items()}
        if found != expected:
            raise InputError(
                f"scores of {label} are of {found}, those of {against} of {expected} samples: "
                f"a paired test needs both scores of the same samples, row by row"
            )
