"""Ensembles: the scores of several models on the same samples, combined into one.

ORA's angles and fDBD's ratios do not change with the scale of a model's features, so the paper simply adds
them (``"sum"``). Scores with scales of their own are put on one first: ``"standardised"`` averages them in
units of their ID deviation about their ID mean, ``"p-values"`` averages their conformal p-values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..core.arrays import ArrayLike, as_scores, as_tensor, like
from ..core.errors import InputError, NotFittedError
from ..detectors import Detector, score_many
from .calibration import Calibration

COMBINATIONS = ("sum", "standardised", "p-values")


class Ensemble:
    """Several fitted detectors, each on the features of its own model.

    ``calibrate`` with held-out ID features first, unless the combination is the plain sum.
    """

    def __init__(self, detectors: Sequence[Detector], *, combine: str = "sum") -> None:
        if not detectors:
            raise InputError("detectors is empty: an ensemble needs at least one")
        if combine not in COMBINATIONS:
            raise InputError(f"combine must be one of {', '.join(COMBINATIONS)}, got {combine!r}")
        self.detectors = list(detectors)
        self.combine = combine
        self._calibrations: list[Calibration] | None = None

    def calibrate(
        self, features: Sequence[ArrayLike], *, ids: Sequence[Sequence[object]] | None = None
    ) -> Ensemble:
        """Learn each member's scale from held-out ID features, one array a member."""
        self._calibrations = [Calibration(scores) for scores in self._member_scores(features, ids)]
        return self

    def score(
        self, features: Sequence[ArrayLike], *, ids: Sequence[Sequence[object]] | None = None
    ) -> ArrayLike:
        """Scores (N,), higher = more in-distribution, of N samples seen by every member.

        ``ids`` are the members' sample ids: an ensemble of samples that do not match is refused.
        """
        members = self._member_scores(features, ids)
        if self.combine == "sum":
            combined = torch.stack(members).sum(dim=0)
        else:
            combined = torch.stack(self._on_one_scale(members)).mean(dim=0)
        return like(combined, features[0])

    def _on_one_scale(self, members: list[Tensor]) -> list[Tensor]:
        if self._calibrations is None:
            raise NotFittedError(f"combine={self.combine!r} needs held-out ID features: call calibrate first")
        if self.combine == "p-values":
            return [known.p_values(scores) for known, scores in zip(self._calibrations, members, strict=True)]
        return [
            (scores - known.scores.mean()) / max(float(known.scores.std()), np.finfo(np.float64).tiny)
            for known, scores in zip(self._calibrations, members, strict=True)
        ]

    def _member_scores(
        self, features: Sequence[ArrayLike], ids: Sequence[Sequence[object]] | None
    ) -> list[Tensor]:
        if not isinstance(features, list | tuple) or len(features) != len(self.detectors):
            raise InputError(
                f"features must be a list of {len(self.detectors)} arrays, one for each detector"
            )
        counts = [len(as_tensor(rows, "features")) for rows in features]
        if len(set(counts)) > 1:
            raise InputError(f"the members saw different numbers of samples: {counts}")
        if ids is not None:
            self._check_ids(ids, counts[0])
        return [torch.from_numpy(as_scores(values, "scores")) for values in self._scores(features)]

    def _scores(self, features: Sequence[ArrayLike]) -> list[ArrayLike]:
        """Each member's scores; members that are given the very same features score them in one pass."""
        scores: dict[int, ArrayLike] = {}
        for rows in {id(rows): rows for rows in features}.values():
            places = [place for place, given in enumerate(features) if given is rows]
            found = score_many([self.detectors[place] for place in places], rows)
            scores.update(zip(places, found, strict=True))
        return [scores[place] for place in range(len(features))]

    def _check_ids(self, ids: Sequence[Sequence[object]], count: int) -> None:
        if len(ids) != len(self.detectors):
            raise InputError(f"ids must be a list of {len(self.detectors)} sequences, one for each detector")
        first = list(ids[0])
        for member, other in enumerate(map(list, ids)):
            if len(other) != count:
                raise InputError(f"member {member} has {len(other)} ids for {count} samples")
            if other != first:
                row = next(row for row in range(count) if other[row] != first[row])
                raise InputError(
                    f"the members saw different samples: row {row} is {first[row]!r} for member 0 "
                    f"and {other[row]!r} for member {member}"
                )
