"""Calibration by class: a threshold of its own for every predicted class with enough calibration data.

One threshold for all classes keeps its promise on average over them: a class whose ID scores are low gets
more false alarms, one whose scores are high gets fewer. Here a score is compared with the calibration scores
of samples that were predicted as the same class (Mondrian conformal prediction, Vovk et al. 2005):

    p(s, c) = (1 + #{calibration scores of class c ≤ s}) / (n_c + 1)

For a sample predicted as c that is exchangeable with the calibration samples predicted as c, P(p ≤ α) ≤ α.
That is a promise for each predicted class, and hence for all together.

Classes with fewer than ``at_least`` scores are one pool and share a threshold; its promise is about its
classes together. Which they are is read off the calibration data, so that it is a little less exact than the
others': among rare classes, those that were rarer by chance are the more likely to be pooled. Where the pool
itself has fewer than that, its classes are compared with all calibration scores, and nothing is promised to
them alone: so few samples are of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.arrays import ArrayLike, as_labels, as_scores, as_tensor
from ..core.errors import InputError
from .calibration import Calibration, Standing, require_enough

# Enough for a rate of 1 %, and for one of 5 % to lie between 2 and 9 % in nine classes of ten.
AT_LEAST = 100
# The group of classes that are compared with the calibration scores of all.
ALL = -1


def pool_small(counts: Tensor, at_least: int = AT_LEAST) -> Tensor:
    """The group of every class (C,), from 0 on, or `ALL`, for classes of so many calibration scores each."""
    if at_least < 1:
        raise InputError(f"a class of its own must have at least one calibration score, got {at_least}")
    small = counts < at_least
    enough = int(counts[small].sum()) >= at_least
    own = (~small).cumsum(0) - (0 if enough else 1)
    return torch.where(small, 0 if enough else ALL, own)


class ClassCalibration(Calibration):
    """Held-out ID scores with the classes predicted for them, turned into p-values and verdicts by class.

    ``groups`` (C,) says which classes share a threshold, see `pool_small`. A score costs two binary searches:
    among all scores, and by its place there among those of its group.
    """

    predicted: Tensor
    groups: Tensor
    _places: Tensor
    _counts: Tensor
    _starts: Tensor

    def __init__(self, id_scores: ArrayLike, predicted: ArrayLike, groups: ArrayLike) -> None:
        super().__init__(id_scores)
        of_class = _as_groups(groups)
        order = torch.from_numpy(as_scores(id_scores, "id_scores")).argsort(stable=True)
        self.register_buffer("predicted", as_labels(predicted, len(self), len(of_class)).cpu()[order])
        self.register_buffer("groups", of_class)
        own = of_class[self.predicted]
        counts = torch.bincount(own[own != ALL], minlength=int(of_class.max()) + 1)
        if bool((counts == 0).any()):
            raise InputError(f"no calibration score is of group {int((counts == 0).nonzero()[0])} of classes")
        # Of every score its group, and within it how many scores of all groups are at most as high: sorted.
        at_most = torch.searchsorted(self.sorted_scores, self.sorted_scores, right=True)
        places = self._place(own, at_most)[own != ALL]
        for name, values in (
            ("_places", places.sort().values),
            ("_counts", counts),
            ("_starts", counts.cumsum(0) - counts),
        ):
            self.register_buffer(name, values, persistent=False)

    def standing(self, scores: Tensor, predicted: Tensor, *, whole: bool = False) -> Standing:
        everywhere = super().standing(scores, predicted, whole=whole)
        if not len(self._counts):
            return everywhere
        group = self.groups[predicted.clamp(min=0)]
        one = group.clamp(min=0)
        place = self._place(one, everywhere.rank - 1)
        rank = 1 + torch.searchsorted(self._places, place, right=True) - self._starts[one]
        return Standing(
            torch.where(group == ALL, everywhere.rank, rank),
            torch.where(group == ALL, everywhere.among, self._counts[one]),
            everywhere.nowhere,
        )

    def peers(self, predicted: int | None = None) -> Tensor:
        if predicted is None:
            raise InputError("the guard is calibrated by class: name the class, predicted=")
        if not 0 <= predicted < len(self.groups):
            raise InputError(f"there is no class {predicted}: classes are 0 to {len(self.groups) - 1}")
        group = int(self.groups[predicted])
        return (
            self.sorted_scores if group == ALL else self.sorted_scores[self.groups[self.predicted] == group]
        )

    def require_rate(self, false_alarm_rate: float) -> None:
        """Every group has enough scores, or the smallest one says that it has not."""
        require_enough(false_alarm_rate, min(self._sizes))

    @property
    def smallest_p_value(self) -> float:
        """What the strangest of all samples would get, in the largest group."""
        return 1 / (max(self._sizes) + 1)

    @property
    def smallest_rate(self) -> float:
        """The lowest false-alarm rate that can be promised to every sample, also of the smallest group."""
        return 1 / (min(self._sizes) + 1)

    @property
    def representatives(self) -> tuple[int | None, ...]:
        """The first class of every group."""
        return tuple(int((self.groups == group).nonzero()[0]) for group in torch.unique(self.groups).tolist())

    @property
    def _sizes(self) -> list[int]:
        return [len(self.peers(one)) for one in self.representatives]

    @property
    def pooled(self) -> tuple[int, ...]:
        """The classes without a threshold of their own: they share one, or have that of all scores."""
        sizes = torch.bincount(self.groups + 1)
        alone = (sizes[self.groups + 1] == 1) & (self.groups != ALL)
        return tuple((~alone).nonzero().flatten().tolist())

    def _place(self, group: Tensor, at_most: Tensor) -> Tensor:
        return group * (len(self) + 1) + at_most

    def _classes(self, predicted: ArrayLike | None, count: int) -> Tensor:
        if predicted is None:
            raise InputError("the guard is calibrated by class: pass the classes of the scores, predicted=")
        return as_labels(predicted, count, len(self.groups))


def _as_groups(groups: ArrayLike) -> Tensor:
    """Groups of classes, numbered from 0 without a gap; `ALL` may stand among them."""
    values = as_tensor(groups, "groups").cpu()
    if values.ndim != 1 or len(values) == 0 or values.is_floating_point():
        raise InputError(f"groups must hold one whole number a class, got shape {tuple(values.shape)}")
    numbers = as_labels(values.to(torch.int64) - ALL, len(values), len(values) + 1) + ALL
    if bool((torch.bincount(numbers[numbers != ALL]) == 0).any()):
        raise InputError("groups of classes must be numbered from 0 without a gap")
    return numbers
