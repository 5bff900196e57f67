"""Whether a classifier and the labels of its data speak of the same thing.

A network that sees its pictures otherwise than in training, or whose classes are not those that the labels
number, still gives features, and a guard fitted on them promises what it says of such features alone. It
shows in how often its answers are the labels, of which share a is compared with two others:

    c = Σ_k p_k q_k    what answers would reach that had nothing to do with the labels: p_k and q_k are the
                       shares of class k among labels and answers
    m                  what the nearest class mean reaches, with the means of one half of the features, on
                       the other half: as much as these labels can be told from these features at the least

The answers are near chance if a < c + (1 − c)/10, and where samples are few, P(Bin(n, c) ≥ a·n) > 0.01, if
a < c + (1 − c)/2. They are far below what the labels suggest if a < 0.8·m, also at the ends of both shares'
99 % intervals; a zero-shot head, which was not trained on labels, is not held to that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import eq

import numpy as np
import torch
from torch import Tensor

from ..core.arrays import as_float
from ..reference.head import Head
from ..reference.reference import Batch

# Rows that are looked at, from the whole of the data.
_LOOKED_AT = 10_000
_TILE = 1024
_LEVEL = 0.01
# The quantile of the normal distribution at that level.
_QUANTILE = 2.326
# Of the way from chance to full agreement: so much there must be, and so much where chance could reach it.
_SKILL, _SKILL_OF_FEW = 0.1, 0.5
_OF_MEANS = 0.8
# From this share on, what the labels would be under other names is worth telling.
_RENAMED = 0.5


@dataclass(frozen=True)
class Agreement:
    """How often a classifier gives the labels: a ``share`` of so many ``samples``.

    ``chance`` is what unrelated answers would reach, ``means`` what class means of its features reach (None
    where it may not be compared), ``renamed`` what the answers reach under the names that fit them best.
    """

    share: float
    samples: int
    chance: float
    means: float | None
    renamed: float

    @property
    def near_chance(self) -> bool:
        right = round(self.share * self.samples)
        if _binomial_tail(self.samples, self.chance, self.samples) > _LEVEL:
            return False  # so few that even the labels themselves would not stand out
        by_accident = _binomial_tail(self.samples, self.chance, right) > _LEVEL
        skill = _SKILL_OF_FEW if by_accident else _SKILL
        return self.share < self.chance + skill * (1 - self.chance)

    @property
    def far_below(self) -> bool:
        if self.means is None:
            return False
        _, most = _interval(self.share, self.samples)
        least, _ = _interval(self.means, self.samples // 2)
        return most < _OF_MEANS * least

    @property
    def problem(self) -> str | None:
        """What is wrong, where something is, and what it may come from."""
        if not (self.near_chance or self.far_below):
            return None
        compared = (
            f"hardly more than by chance ({100 * self.chance:.1f} %)"
            if self.near_chance
            else f"while the class means of its own features give {100 * (self.means or 0):.1f} %"
        )
        renamed = (
            f" Under other numbers its answers would be {100 * self.renamed:.1f} % of them: most likely the "
            f"labels number other classes than the model's, as a folder's number its own sub-folders."
            if self.renamed >= max(_RENAMED, 2 * self.share)
            else " Either it does not see the pictures as it did in training (?size=…&crop=…&mean=…&std=… in "
            "its spec says how), or its weights are not the trained ones, or the labels number other classes "
            "than the model's, as a folder's number its own sub-folders."
        )
        return f"the classifier gives {100 * self.share:.1f} % of the labels, {compared}.{renamed}"


def agreement(head: Head, batches: Iterable[Batch], rows: int) -> Agreement | None:
    """The agreement of a head with the labels of ``rows`` stored features; None where they have none.

    The features are read twice, a batch at a time.
    """
    step = max(1, -(-rows // _LOOKED_AT))
    means = _ClassMeans(head)
    said = []
    for features, labels in _spread(batches, step):
        means.add(features, labels)
        said.append((labels, head(features).argmax(dim=1).cpu()))
    if not said:
        return None
    labels, answers = (torch.cat(column) for column in zip(*said, strict=True))
    samples, right = len(labels), int((answers == labels).sum())
    shares, given = (torch.bincount(column, minlength=head.classes) / samples for column in (labels, answers))
    chance = float(shares @ given)
    # Labels that are nearly all the same cannot show it: what is left is a guess among the classes.
    if _binomial_tail(samples, float(shares @ shares), samples) > _LEVEL:
        chance = 1 / head.classes
    return Agreement(
        share=right / samples,
        samples=samples,
        chance=chance,
        means=None if head.unit_features or samples < 2 else means.agreement(_spread(batches, step)),
        renamed=_renamed(answers, labels, head.classes),
    )


def _spread(batches: Iterable[Batch], step: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Every ``step``-th row that has a label: data sorted by class must not show its first classes only."""
    seen = 0
    for features, labels, _ in batches:
        if labels is None:
            return
        chosen = torch.arange((-seen) % step, len(labels), step)
        seen += len(labels)
        for part in torch.split(chosen[labels[chosen] >= 0], _TILE):
            if len(part):
                yield as_float(features[part]), labels[part]


class _ClassMeans:
    """The mean of every class over the even rows, and how often the nearest is right about the odd ones."""

    def __init__(self, head: Head) -> None:
        self.sums = torch.zeros(head.classes, head.width)
        self.counts = torch.zeros(head.classes, dtype=torch.int64)
        self.rows = 0

    def add(self, features: Tensor, labels: Tensor) -> None:
        even = torch.arange(self.rows, self.rows + len(labels)) % 2 == 0
        self.rows += len(labels)
        self.sums.index_add_(0, labels[even], features[even].to(self.sums))
        self.counts += torch.bincount(labels[even], minlength=len(self.counts))

    def agreement(self, rows: Iterable[tuple[Tensor, Tensor]]) -> float:
        means = self.sums / self.counts.clamp_min(1)[:, None]
        seen = right = 0
        for features, labels in rows:
            odd = torch.arange(seen, seen + len(labels)) % 2 == 1
            seen += len(labels)
            distances = torch.cdist(features[odd].to(means), means).masked_fill(self.counts == 0, math.inf)
            right += int((distances.argmin(dim=1) == labels[odd]).sum())
        return right / (seen // 2)


def _renamed(answers: Tensor, labels: Tensor, classes: int) -> float:
    """How often an answer is the label that this answer mostly stands for, over every other row."""
    if len(labels) < 2:
        return 0.0
    one, other = slice(0, None, 2), slice(1, None, 2)
    pairs, counts = np.unique((answers[one] * classes + labels[one]).numpy(), return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]  # the most frequent pair of an answer is its last
    meaning = dict(zip((pairs // classes).tolist(), (pairs % classes).tolist(), strict=True))
    found = [meaning.get(answer) for answer in answers[other].tolist()]
    return float(np.mean([*map(eq, found, labels[other].tolist())]))


def _binomial_tail(count: int, share: float, least: int) -> float:
    """P(Bin(count, share) ≥ least)."""
    if least <= 0 or share >= 1:
        return 1.0
    if share <= 0:
        return 0.0
    hits = torch.arange(least, count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(hits + 1) - torch.lgamma(count - hits + 1)
    return float(torch.exp(ways + hits * math.log(share) + (count - hits) * math.log1p(-share)).sum())


def _interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's interval of a share that was counted."""
    square = _QUANTILE**2 / count
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return max(0.0, centre - half), min(1.0, centre + half)
