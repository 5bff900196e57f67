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
from .bank import ALL_ROWS, Bank


@dataclass(frozen=True)
class Needs:
    """The statistics a detector asks for; ``a | b`` serves both."""

    mean: bool = False
    class_means: bool = False
    class_spread: bool = False
    class_accuracy: bool = False
    scatter: bool = False
    extremes: bool = False
    bank: int = 0
    bank_share: float = 0.0

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
        return self.class_means or self.class_spread or self.class_accuracy

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
        }
        named = [word for field, word in words.items() if getattr(self, field)]
        if self.bank:
            named.append("all rows" if self.bank == ALL_ROWS else f"{self.bank:,} rows")
        elif self.bank_share:
            named.append(f"{100 * self.bank_share:g} % of the rows")
        return named


class Moments:
    """Counts, means and the pooled scatter of groups of rows, merged by Chan's pairwise update.

    A group is a class, or the whole data where classes are not needed. The scatter is kept *within* groups,
    so the total scatter is a sum of two positive parts and nothing cancels.
    """

    def __init__(self, width: int, groups: int, *, scatter: bool, spread: bool = False) -> None:
        self.counts = torch.zeros(groups, dtype=torch.float64)
        self.means = torch.zeros(groups, width, dtype=torch.float64)
        self.within = torch.zeros(width, width, dtype=torch.float64) if scatter else None
        # Σ‖z − mean‖² of each group: the trace of its scatter.
        self.spread = torch.zeros(groups, dtype=torch.float64) if spread else None

    def update(self, rows: Tensor, groups: Tensor) -> None:
        """Add rows (n, D) float64 with their group numbers (n,). O(n·D), with scatter O(n·D²)."""
        present, inverse, counts = torch.unique(groups, return_inverse=True, return_counts=True)
        self._grow(int(present[-1]) + 1)
        weights = counts.to(rows.dtype)
        means = torch.zeros(len(present), rows.shape[1], dtype=rows.dtype, device=rows.device)
        means.index_add_(0, inverse, rows).div_(weights[:, None])
        self._absorb(present, weights, means)
        if self.within is not None or self.spread is not None:
            deviations = rows - means[inverse]
            if self.within is not None:
                self.within.addmm_(deviations.T, deviations)
            if self.spread is not None:
                self.spread.index_add_(0, groups, deviations.square().sum(dim=1))

    def _absorb(self, present: Tensor, weights: Tensor, means: Tensor) -> None:
        """Merge the counts and means of groups ``present``, and the scatter that their shift adds."""
        self._to(means.device)
        before = self.counts[present]
        total = before + weights
        shift = means - self.means[present]
        self.means[present] += shift * (weights / total)[:, None]
        self.counts[present] = total
        shift *= (before * weights / total).sqrt()[:, None]
        if self.within is not None:
            self.within.addmm_(shift.T, shift)
        if self.spread is not None:
            self.spread[present] += shift.square().sum(dim=1)

    def merge(self, other: Moments) -> None:
        self._grow(len(other.counts))
        present = other.counts.nonzero().flatten()
        if len(present):
            self._absorb(present, other.counts[present], other.means[present])
        if self.within is not None and other.within is not None:
            self.within += other.within.to(self.within.device)
        if self.spread is not None and other.spread is not None:
            self.spread[: len(other.spread)] += other.spread.to(self.spread.device)

    def _grow(self, groups: int) -> None:
        missing = groups - len(self.counts)
        if missing > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(missing)])
            self.means = torch.cat([self.means, self.means.new_zeros(missing, self.means.shape[1])])
            if self.spread is not None:
                self.spread = torch.cat([self.spread, self.spread.new_zeros(missing)])

    def _to(self, device: torch.device) -> None:
        if self.means.device != device:
            self.counts, self.means = self.counts.to(device), self.means.to(device)
            self.within = None if self.within is None else self.within.to(device)
            self.spread = None if self.spread is None else self.spread.to(device)

    @property
    def mean(self) -> Tensor:
        """The mean of all rows."""
        return (self.counts @ self.means) / self.counts.sum()

    @property
    def total(self) -> Tensor:
        """Scatter about the mean of all rows: within the groups plus between them."""
        if self.within is None:
            raise InputError("the scatter was not collected")
        between = (self.means - self.mean) * self.counts.sqrt()[:, None]
        return torch.addmm(self.within, between.T, between)


class Statistics:
    """The running memory of a stream of features: `update` with batches, ``+`` with another half."""

    def __init__(self, needs: Needs, width: int, *, classes: int | None = None, seed: int = 0) -> None:
        self.needs = needs
        self.width = width
        self.classes = classes
        self.seed = seed
        self.count = 0
        groups = (classes or 1) if needs.labels else 1
        self.moments = Moments(width, groups, scatter=needs.scatter, spread=needs.class_spread)
        self.correct = torch.zeros(classes or 1, dtype=torch.int64)
        self.maximum = torch.full((width,), -torch.inf, dtype=torch.float64)
        self.minimum = torch.full((width,), torch.inf, dtype=torch.float64)
        self.bank = Bank(needs.bank, width, share=needs.bank_share, seed=seed)

    def update(
        self,
        features: Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        predicted: Tensor | None = None,
    ) -> None:
        """Add a batch of validated rows; ids number the samples and default to their place in the stream.

        ``predicted`` are the head's answers, needed for class accuracies only.
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
        if needs.mean or needs.labels or needs.scatter:
            groups = labels if needs.labels else torch.zeros(len(features), dtype=torch.int64)
            assert groups is not None
            self.moments.update(features.to(torch.float64), groups.to(features.device))
        if needs.class_accuracy and labels is not None and predicted is not None:
            right = labels.cpu()[labels.cpu() == predicted.cpu()]
            self.correct += torch.bincount(right, minlength=len(self.correct))
        if needs.extremes:
            self.maximum = torch.maximum(self.maximum.to(features.device), features.amax(dim=0))
            self.minimum = torch.minimum(self.minimum.to(features.device), features.amin(dim=0))
        if needs.bank or needs.bank_share:
            self.bank.add(features, labels, ids)

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
            merged.maximum = torch.maximum(merged.maximum, half.maximum.to(merged.maximum))
            merged.minimum = torch.minimum(merged.minimum, half.minimum.to(merged.minimum))
        return merged
