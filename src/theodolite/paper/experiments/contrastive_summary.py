"""What the features and the head of a trained network are like, in eight numbers; weights are not kept."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import torch

from ...benchmarks.feature_sets import FeatureSet
from ...reference.head import Head
from ...reference.reference import Reference
from ...reference.statistics import Needs

_DIGITS = 4


@dataclass(frozen=True)
class Summary:
    """Of the rows that scores are fitted on, and of the head.

    ``length`` is the root mean square of ‖z‖ and ``centre`` is ‖μ‖; ``between`` is the share of the features'
    variance that lies between the class means, in per cent; ``directions`` is (tr Σ)² / tr Σ², the number of
    directions that features vary in if they vary alike in each. Of the head: the mean ``weight`` ‖w_c‖,
    ``bias``, the largest less the smallest, and ``alignment``, the mean of cos(w_c − w̄, μ_c − μ).
    """

    width: int
    length: float
    centre: float
    between: float
    directions: float
    weight: float
    bias: float
    alignment: float

    @classmethod
    def of(cls, rows: FeatureSet, head: Head) -> Self:
        reference = Reference.collect(rows, head=head, needs=Needs(class_means=True, scatter=True))
        moments, count = reference.statistics.moments, reference.count
        total, within = moments.total, moments.within
        assert within is not None
        spread = total.trace()
        present = moments.counts > 0
        weight = head.weight.double()
        apart = (moments.means - moments.mean)[present]
        own = (weight - weight.mean(dim=0))[present]
        numbers = (
            (spread / count + moments.mean.square().sum()).sqrt(),
            torch.linalg.vector_norm(moments.mean),
            100 * (1 - within.trace() / spread),
            spread.square() / total.square().sum(),
            torch.linalg.vector_norm(weight, dim=1).mean(),
            head.bias.max() - head.bias.min(),
            torch.cosine_similarity(own, apart, dim=1).mean(),
        )
        return cls(rows.width, *(round(float(number), _DIGITS) for number in numbers))

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    def texts(self) -> list[str]:
        """The numbers in the order of their names."""
        values = [getattr(self, name) for name in self.names()]
        return [str(value) if isinstance(value, int) else f"{value:.2f}" for value in values]
