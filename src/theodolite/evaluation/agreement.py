"""Whether a classifier and the labels of its data speak of the same thing.

A network that sees its pictures otherwise than in training, or whose classes are not those that the labels
number, still gives features, and a guard fitted on them promises what it says of such features alone. It
shows in how often its answers are the labels, of which share a is compared with two others:

    c = Σ_k p_k q_k    what answers would reach that had nothing to do with the labels: p_k and q_k are the
                       shares of class k among labels and answers
    m                  what the nearest class mean reaches, with the means of one half of the rows (by a hash
                       of their place), on the other half: as much as these labels can be told from these
                       features at the least

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
from ..core.errors import InputError
from ..reference.head import Head
from ..reference.reference import Batch

# Rows that are looked at, from the whole of the data.
_LOOKED_AT = 10_000
_TILE = 1024
# Multiplied with it, neighbouring numbers differ in their middle bits as if by chance (Knuth).
_HASH = 2_654_435_761
_LEVEL = 0.01
# The quantile of the normal distribution at that level.
_QUANTILE = 2.326
# Of the way from chance to full agreement: so much there must be, and so much where chance could reach it.
_SKILL, _SKILL_OF_FEW = 0.1, 0.5
_OF_MEANS = 0.8
# From this share on, what the labels would be under other names is worth telling.
_RENAMED = 0.5

OF_PICTURES = (
    "Either it does not see the pictures as it did in training (?size=…&crop=…&mean=…&std=… in its spec "
    "says how), or its weights are not the trained ones, or the labels number other classes than the "
    "model's, as a folder's number its own sub-folders."
)
OF_FEATURES = (
    "Either the head does not belong to these features (another model, another layer, features taken before "
    "a norm), or the labels number other classes than the head's."
)


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
        return self.explained(OF_PICTURES)

    def explained(self, causes: str) -> str | None:
        """The same, with the ``causes`` that are likely where the labels have no other names."""
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
            else f" {causes}"
        )
        return f"the classifier gives {100 * self.share:.1f} % of the labels, {compared}.{renamed}"


def agreement(head: Head, batches: Iterable[Batch], rows: int) -> Agreement | None:
    """The agreement of a head with the labels of ``rows`` stored features; None where they have none.

    The features are read twice, a batch at a time. Labels that are no classes of the head are an error.
    """
    step = max(1, -(-rows // _LOOKED_AT))
    means = _ClassMeans(head)
    said = []
    for features, labels in _spread(batches, step):
        _require_classes(labels, head)
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


def _require_classes(labels: Tensor, head: Head) -> None:
    highest = int(labels.max())
    if highest >= head.classes:
        raise InputError(
            f"labels go up to {highest}, but the head has {head.classes} classes (0 to {head.classes - 1}): "
            f"it is the head of another classifier, or the labels number other classes"
        )


class _ClassMeans:
    """The mean of every class over one half of the rows; how often the nearest is right about the other."""

    def __init__(self, head: Head) -> None:
        self.sums = torch.zeros(head.classes, head.width)
        self.counts = torch.zeros(head.classes, dtype=torch.int64)
        self.rows = 0

    def add(self, features: Tensor, labels: Tensor) -> None:
        first = _first_half(self.rows, len(labels))
        self.rows += len(labels)
        self.sums.index_add_(0, labels[first], features[first].to(self.sums))
        self.counts += torch.bincount(labels[first], minlength=len(self.counts))

    def agreement(self, rows: Iterable[tuple[Tensor, Tensor]]) -> float:
        means = self.sums / self.counts.clamp_min(1)[:, None]
        seen = right = asked = 0
        for features, labels in rows:
            other = ~_first_half(seen, len(labels))
            seen += len(labels)
            distances = torch.cdist(features[other].to(means), means).masked_fill(self.counts == 0, math.inf)
            right += int((distances.argmin(dim=1) == labels[other]).sum())
            asked += int(other.sum())
        return right / max(asked, 1)


def _first_half(start: int, count: int) -> Tensor:
    """Which of so many rows belong to one half. Not every other one: labels may come in turn."""
    places = torch.arange(start, start + count)
    return (places * _HASH >> 16) % 2 == 0


def _renamed(answers: Tensor, labels: Tensor, classes: int) -> float:
    """How often an answer is the label that this answer mostly stands for in the other half of the rows."""
    if len(labels) < 2:
        return 0.0
    one = _first_half(0, len(labels))
    other = ~one
    if not (bool(one.any()) and bool(other.any())):
        return 0.0
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
