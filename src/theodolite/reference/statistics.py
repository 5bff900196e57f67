"""What one pass over in-distribution features remembers, as sums that merge.

Every part has `update(batch)` and `+`: a fit is one pass in constant memory, and two halves merged equal the
whole (float64 throughout). Only what `Needs` asks for is collected.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import InputError
from .answers import Answers
from .bank import ALL_ROWS, Bank
from .head import Head
from .moments import Moments


@dataclass(frozen=True)
class Needs:
    """The statistics a detector asks for; ``a | b`` serves both.

    >>> both = th.Needs(mean=True) | th.Needs(bank=100)
    >>> both.mean, both.bank
    (True, 100)
    """

    mean: bool = False
    class_means: bool = False
    class_spread: bool = False
    class_accuracy: bool = False
    scatter: bool = False
    extremes: bool = False
    bank: int = 0
    bank_share: float = 0.0
    correct_means: bool = False
    softmax_means: bool = False
    likelihood: bool = False

    def __or__(self, other: Needs) -> Needs:
        return Needs(
            **{
                field.name: max(getattr(self, field.name), getattr(other, field.name))
                for field in dataclasses.fields(self)
            }
        )

    @property
    def labels(self) -> bool:
        """Whether the rows must come with labels."""
        return self.by_class or self.correct_means or self.likelihood

    @property
    def by_class(self) -> bool:
        """Whether sums over the rows of every class are asked for."""
        return self.class_means or self.class_spread or self.class_accuracy

    @property
    def moments(self) -> bool:
        """Whether sums over the rows are asked for."""
        return self.mean or self.by_class or self.scatter

    @property
    def answers(self) -> bool:
        """Whether sums of what the head answers are asked for."""
        return self.correct_means or self.softmax_means or self.likelihood

    @property
    def anything(self) -> bool:
        return self != Needs()

    def names(self) -> list[str]:
        """In words, for tables."""
        words = {
            "mean": "mean",
            "class_means": "class means",
            "class_spread": "class variances",
            "class_accuracy": "class accuracies",
            "scatter": "scatter",
            "extremes": "max and min",
            "correct_means": "class means of correct rows",
            "softmax_means": "mean softmax by answer",
            "likelihood": "likelihood by temperature",
        }
        named = [word for field, word in words.items() if getattr(self, field)]
        if self.bank:
            named.append("all rows" if self.bank == ALL_ROWS else f"{self.bank:,} rows")
        elif self.bank_share:
            named.append(f"{100 * self.bank_share:g} % of the rows")
        return named


class Statistics:
    """The running memory of a stream of features: `update` with batches, ``+`` with another half."""

    def __init__(self, needs: Needs, width: int, *, classes: int | None = None, seed: int = 0) -> None:
        self.needs = needs
        self.width = width
        self.classes = classes
        self.seed = seed
        self.count = 0
        groups = (classes or 1) if needs.by_class else 1
        self.moments = Moments(width, groups, scatter=needs.scatter, spread=needs.class_spread)
        self.correct = torch.zeros(classes or 1, dtype=torch.int64)
        self.maximum = torch.full((width,), -torch.inf, dtype=torch.float64)
        self.minimum = torch.full((width,), torch.inf, dtype=torch.float64)
        self.bank = Bank(needs.bank, width, share=needs.bank_share, seed=seed)
        self.answers = Answers(
            width,
            classes or 1,
            right=needs.correct_means,
            softmax=needs.softmax_means,
            likelihood=needs.likelihood,
        )

    def update(
        self,
        features: Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        head: Head | None = None,
    ) -> bool:
        """Add a batch of rows; ids number the samples and default to their place in the stream.

        ``head`` is asked where its answers are needed. True if the rows are known to be finite, from sums
        that were taken anyhow.
        """
        if self.needs.labels and labels is None:
            wanted = ", ".join(self.needs.names())
            raise InputError(
                f"labels are missing: {wanted} cannot be had without them; pass data that has labels"
            )
        if ids is None:
            ids = torch.arange(self.count, self.count + len(features))
        self.count += len(features)
        needs = self.needs
        finite = needs.moments and self.moments.update(features, labels if needs.by_class else None)
        if head is not None and (needs.answers or needs.class_accuracy):
            predicted = self.answers.update(head, features, labels)
            if needs.class_accuracy and labels is not None:
                right = labels.cpu()[labels.cpu() == predicted.cpu()]
                self.correct += torch.bincount(right, minlength=len(self.correct))
        if needs.extremes:
            self.maximum = torch.maximum(self.maximum.to(features.device), features.amax(dim=0))
            self.minimum = torch.minimum(self.minimum.to(features.device), features.amin(dim=0))
        if needs.bank or needs.bank_share:
            self.bank.add(features, labels, ids)
        return finite

    def __add__(self, other: Statistics) -> Statistics:
        """Both streams as one; the ids of their samples must not overlap where a bank is kept."""
        if (self.needs, self.width, self.seed) != (other.needs, other.width, other.seed):
            raise InputError(
                f"statistics do not match: {self.needs}, width {self.width}, seed {self.seed} "
                f"against {other.needs}, width {other.width}, seed {other.seed}"
            )
        merged = Statistics(self.needs, self.width, classes=self.classes, seed=self.seed)
        merged.bank = self.bank + other.bank
        for half in (self, other):
            merged.count += half.count
            merged.moments.merge(half.moments)
            merged.correct += half.correct
            merged.answers.merge(half.answers)
            merged.maximum = torch.maximum(merged.maximum, half.maximum.to(merged.maximum))
            merged.minimum = torch.minimum(merged.minimum, half.minimum.to(merged.minimum))
        return merged
