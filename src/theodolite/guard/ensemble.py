"""Ensembles: the scores of several models on the same samples, combined into one.

ORA's angles and fDBD's ratios do not change with the scale of a model's features, so the paper simply adds
them. Scores with scales of their own are put on one first (`detectors.combination`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .._version import __version__
from ..core.arrays import ArrayLike, as_scores, as_tensor, like
from ..core.errors import FormatError, InputError, NotFittedError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, JsonValue, from_plain
from ..detectors import Detector, score_many
from ..detectors._storage import PackedDetector
from ..detectors.combination import P_VALUES, SUM, check_combination
from .calibration import Calibration

FORMAT = "theodolite-ensemble/1"
_REMEDY = "save the ensemble again"


def combined(rule: str, members: Sequence[Tensor], known: Sequence[Calibration] | None) -> Tensor:
    """One score (N,) from the members' scores; ``known`` are their scores of ID samples, for a scale."""
    if rule == SUM:
        return torch.stack(list(members)).sum(dim=0)
    if known is None:
        raise NotFittedError(f"combine={rule!r} needs held-out ID features: call calibrate first")
    pairs = list(zip(known, members, strict=True))
    if rule == P_VALUES:
        return torch.stack([seen.p_values(scores) for seen, scores in pairs]).mean(dim=0)
    return torch.stack(
        [_standardised(place, seen, scores) for place, (seen, scores) in enumerate(pairs)]
    ).mean(dim=0)


def _standardised(place: int, known: Calibration, scores: Tensor) -> Tensor:
    deviation = float(known.scores.std())
    if deviation == 0:
        raise InputError(
            f"member {place} gives all of its {len(known)} ID samples the same score: it has no scale to "
            f"standardise by. Leave it out, or use combine='p-values'"
        )
    return (scores - float(known.scores.mean())) / deviation


@dataclass(frozen=True)
class _Description:
    """An ensemble in a file's header."""

    format: str
    theodolite: str
    combine: str
    detectors: tuple[JsonValue, ...]
    calibrated: bool


class Ensemble:
    """Several fitted detectors, each on the features of its own model.

    ``calibrate`` with held-out ID features first, unless the combination is the plain sum. For verdicts, on
    pictures too, see `EnsembleGuard`.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> one, other = (th.MDS().fit(rows, labels) for rows in (train, train[:, :4]))  # features of two models
    >>> ensemble = th.Ensemble([one, other])
    >>> ensemble.score([train, train[:, :4]]).shape
    (150,)
    """

    def __init__(self, detectors: Sequence[Detector], *, combine: str = SUM) -> None:
        if not detectors:
            raise InputError("detectors is empty: an ensemble needs at least one")
        self.detectors = list(detectors)
        self.combine = check_combination(combine)
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
        return like(combined(self.combine, members, self._calibrations), features[0])

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write detectors, their heads and their scales as one safetensors file."""
        packed = [PackedDetector.of(detector) for detector in self.detectors]
        tensors = {
            f"detector.{place}.{name}": tensor
            for place, member in enumerate(packed)
            for name, tensor in member.tensors.items()
        }
        known = self._calibrations or ()
        tensors |= {f"calibration.{place}": scale.sorted_scores for place, scale in enumerate(known)}
        description: JsonObject = {
            "format": FORMAT,
            "theodolite": __version__,
            "combine": self.combine,
            "detectors": [member.description for member in packed],
            "calibrated": self._calibrations is not None,
        }
        write_tensors(Path(path), tensors, description)

    @classmethod
    def load(cls, path: str | Path) -> Ensemble:
        """The ensemble that `save` wrote."""
        tensors, description = read_tensors(Path(path), FORMAT)
        with undamaged(path, _REMEDY):
            said = from_plain(_Description, description, "the ensemble")
            members = [
                PackedDetector.described(one, below(tensors, f"detector.{place}."))
                for place, one in enumerate(said.detectors)
            ]
            ensemble = cls([member.unpack() for member in members], combine=said.combine)
            if said.calibrated:
                ensemble._calibrations = [
                    Calibration(tensors[f"calibration.{place}"]) for place in range(len(members))
                ]
            if len(tensors) != sum(len(member.tensors) for member in members) + len(
                ensemble._calibrations or ()
            ):
                raise FormatError("it holds tensors of no member")
        return ensemble

    # ------------------------------------------------------------------ members

    def _member_scores(
        self, features: Sequence[ArrayLike], ids: Sequence[Sequence[object]] | None
    ) -> list[Tensor]:
        require_one_each(features, len(self.detectors), "detector", ids)
        return [torch.from_numpy(as_scores(values, "scores")) for values in self._scores(features)]

    def _scores(self, features: Sequence[ArrayLike]) -> list[ArrayLike]:
        """Each member's scores; members that are given the very same features score them in one pass."""
        scores: dict[int, ArrayLike] = {}
        for rows in {id(rows): rows for rows in features}.values():
            places = [place for place, given in enumerate(features) if given is rows]
            found = score_many([self.detectors[place] for place in places], rows)
            scores.update(zip(places, found, strict=True))
        return [scores[place] for place in range(len(features))]


def below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def require_one_each(
    features: Sequence[ArrayLike],
    members: int,
    what: str,
    ids: Sequence[Sequence[object]] | None = None,
) -> None:
    """One array of the same samples for every member; with ``ids``, of the same samples by name."""
    if not isinstance(features, list | tuple) or len(features) != members:
        raise InputError(f"features must be a list of {members} arrays, one for each {what}")
    counts = [len(as_tensor(rows, "features")) for rows in features]
    if len(set(counts)) > 1:
        raise InputError(f"the members saw different numbers of samples: {counts}")
    if ids is None:
        return
    if not isinstance(ids, list | tuple) or len(ids) != members:
        raise InputError(f"ids must be a list of {members} sequences, one for each {what}")
    first = _names(ids[0])
    for member, other in enumerate(map(_names, ids)):
        if len(other) != counts[0]:
            raise InputError(f"member {member} has {len(other)} ids for {counts[0]} samples")
        if other != first:
            row = next(row for row in range(counts[0]) if other[row] != first[row])
            raise InputError(
                f"the members saw different samples: row {row} is {first[row]!r} for member 0 "
                f"and {other[row]!r} for member {member}"
            )


def _names(ids: object) -> list[object]:
    """One member's ids as a plain list; refused unless they are a sequence of single names or numbers."""
    listed = ids.tolist() if hasattr(ids, "tolist") else ids
    if not isinstance(listed, list | tuple) or any(isinstance(one, list | Tensor) for one in listed):
        shape = f" of shape {tuple(ids.shape)}" if hasattr(ids, "shape") else ""
        raise InputError(
            f"ids must hold one sequence of names or numbers a member, got {type(ids).__name__}{shape}"
        )
    return list(listed)
