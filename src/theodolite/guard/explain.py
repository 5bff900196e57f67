"""From samples to explanations: what a guard sees in them, part by part.

    explainer = Explainer(guard, bank="features/train")
    for explanation in explainer(pictures):       # `guard.explain(pictures, bank=…)` does both
        print(explanation.in_words, explanation.geometry)

Making an explainer costs the table of the boundaries, O(C²·D) where the score has none of its own, and with
a bank one pass over it; a sample then costs a verdict, O(C·D) for logits and geometry, and O(B·D) for the
nearest of B samples of a bank. Nothing of it changes the guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from ..core.arrays import ArrayLike, FloatArray, as_float, require_finite
from ..core.errors import InputError
from ..detectors import NNGuide
from .explanation import (
    Explanation,
    Geometry,
    Histogram,
    IdAngles,
    Neighbours,
    Prediction,
    p_value_in_words,
)
from .nearest import BankLike, IdBank, guided, nearest, open_bank, own_bank
from .station import Station, geometries, station_of
from .verdicts import ID, NO_CLASS, OOD, UNSCORABLE

if TYPE_CHECKING:
    from .guard import Guard

TOP, NEIGHBOURS = 5, 5
_TILE = 512
_UNSCORABLE = "its features hold NaN or infinity, or numbers so large that the score overflows"
_QUANTILES = (0.05, 0.5, 0.95)


class Standard(NamedTuple):
    """What a sample is held to."""

    threshold: float
    calibration: Histogram


class Explainer:
    """Explanations of one guard. ``bank`` are ID features of its model: a feature store, or a file of them.

    ``top`` classes and ``neighbours`` are told at most. ``false_alarm_rate`` is another than the guard's.

    >>> means, labels, rng = 4 * np.eye(3, 8), np.arange(300) % 3, np.random.default_rng(0)
    >>> train, val = (means[labels] + rng.normal(size=(300, 8)) for _ in range(2))
    >>> guard = th.Guard.fit(train, labels, head=th.Head(means), calibration=val)
    >>> explainer = th.Explainer(guard, top=2)
    >>> (why,) = explainer(np.full((1, 8), 9.0))
    >>> why.verdict, len(why.predictions)
    ('OOD', 2)
    """

    def __init__(
        self,
        guard: Guard,
        *,
        bank: BankLike | None = None,
        top: int = TOP,
        neighbours: int = NEIGHBOURS,
        false_alarm_rate: float | None = None,
    ) -> None:
        for name, value in (("top", top), ("neighbours", neighbours)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        self.guard = guard
        self.top, self.neighbours = top, neighbours
        self.rate = guard.false_alarm_rate if false_alarm_rate is None else false_alarm_rate
        guard.calibration.require_rate(self.rate)
        self._standards: dict[int, Standard] = {}
        self._given: IdBank | None = None
        if bank is not None and guard.detector.of_layers:
            raise InputError("bank is for guards of one layer, and this one looks at several: leave it out")
        if bank is not None:
            accept = guard.accept_code_change
            self._given = open_bank(bank, guard.width, guard.provenance, guard.origin, accept=accept)
        self._station = self._chosen_station()
        self._angles, self._angle_note = self._id_angles()

    def __call__(
        self,
        inputs: ArrayLike | Sequence[Image],
        *,
        names: Sequence[str] | None = None,
        pictures: Sequence[str | None] | None = None,
    ) -> list[Explanation]:
        """An explanation a row of features (N, D), prepared images (N, 3, H, W) or a list of pictures.

        ``names`` are what the samples are called, ``pictures`` the files of their pictures.
        """
        features = self.guard._features(inputs, finite=False)
        shown = not isinstance(inputs, Tensor | np.ndarray) or inputs.ndim != 2
        return self.of_features(features, names=names, pictures=pictures, shown=shown)

    def of_features(
        self,
        features: Tensor,
        *,
        names: Sequence[str] | None = None,
        pictures: Sequence[str | None] | None = None,
        shown: bool = False,
    ) -> list[Explanation]:
        """The same for features that the guard's own model gave, of pictures that are ``shown`` or not."""
        called = [f"#{row}" for row in range(len(features))] if names is None else list(names)
        files = [None] * len(features) if pictures is None else list(pictures)
        for name, given in (("names", called), ("pictures", files)):
            if len(given) != len(features):
                raise InputError(f"{len(given)} {name} for {len(features)} samples: one for each")
        what = "pictures" if shown or any(files) else "samples"
        explained: list[Explanation] = []
        for start in range(0, len(features), _TILE):
            part = slice(start, start + _TILE)
            explained += self._tile(features[part], called[part], files[part], what)
        return explained

    # ------------------------------------------------------------------ one tile of samples

    def _tile(
        self, features: Tensor, names: Sequence[str], pictures: Sequence[str | None], what: str
    ) -> list[Explanation]:
        verdicts = self.guard.judge(features, self.rate, flag=True)
        columns = zip(*(torch.as_tensor(column).tolist() for column in verdicts), strict=True)
        empty = Explanation(
            name="",
            picture=None,
            verdict=UNSCORABLE,
            in_words=f"no verdict: {_UNSCORABLE}",
            score_title=self.guard.title,
            score=None,
            p_value=None,
            false_alarm_rate=self.rate,
            threshold=None,
            calibration=Histogram.of(self.guard.calibration.scores),
        )
        told = []
        for (label, score, p_value, flagged), name, picture in zip(columns, names, pictures, strict=True):
            one = replace(empty, name=name, picture=picture)
            if not np.isnan(p_value):
                standard = self._standard(label)
                one = replace(
                    one,
                    verdict=OOD if flagged else ID,
                    in_words=p_value_in_words(p_value, standard.calibration.count, what),
                    score=score,
                    p_value=p_value,
                    threshold=standard.threshold,
                    calibration=standard.calibration,
                )
            told.append(one)
        whole = [row for row, known in enumerate(told) if known.verdict != UNSCORABLE]
        if whole:
            predicted = torch.as_tensor(verdicts.predicted)[whole].tolist()
            parts = self._parts(as_float(features[whole]), predicted)
            for row, (predictions, geometry, near, notes) in zip(whole, parts, strict=True):
                told[row] = replace(
                    told[row], predictions=predictions, geometry=geometry, neighbours=near, notes=notes
                )
        return told

    def _standard(self, label: int) -> Standard:
        """What a sample of this class is compared with: all calibration scores, or those of its class."""
        if label not in self._standards:
            known = self.guard.calibration
            scores = known.peers(label).cpu().numpy()
            self._standards[label] = Standard(known.threshold(self.rate, label), Histogram.of(scores))
        return self._standards[label]

    def _parts(
        self, features: Tensor, predicted: Sequence[int]
    ) -> list[tuple[tuple[Prediction, ...], Geometry | None, Neighbours | None, tuple[str, ...]]]:
        """Predictions, geometry, neighbours and notes of finite rows."""
        seen = self._seen(features)
        near = self._nearest(seen)
        predictions = self._predictions(features, predicted)
        places: Sequence[Geometry | None] = [None] * len(features)
        if self._station is not None and self.guard.head is not None:
            logits = self.guard.head.logits(seen)
            places = geometries(self._station, seen, logits, self.guard.class_name)
        return [
            (
                classes,
                None if place is None else replace(place, id_angles=self._angles),
                samples,
                self._notes(label, place, samples),
            )
            for classes, place, samples, label in zip(predictions, places, near, predicted, strict=True)
        ]

    def _predictions(self, features: Tensor, predicted: Sequence[int]) -> list[tuple[Prediction, ...]]:
        """The largest logits; first the class that the guard predicts, also where another ties with it."""
        head = self.guard.head
        if head is None:
            return [()] * len(features)
        logits = head(features.to(head.weight.device))
        shares = logits.double().softmax(dim=1)
        told = []
        for row, label in enumerate(predicted):
            order = logits[row].argsort(descending=True, stable=True).tolist()
            first = [label, *(other for other in order[: self.top + 1] if other != label)][: self.top]
            parts = ((one, float(shares[row, one]), float(logits[row, one])) for one in first)
            named = (Prediction(one, self.guard.class_name(one), *values) for one, *values in parts)
            told.append(tuple(named))
        return told

    def _nearest(self, seen: Tensor) -> Sequence[Neighbours | None]:
        detector = self.guard.detector
        if self._given is not None:
            return nearest(seen, self._given, self._seen, self.neighbours)
        if isinstance(detector, NNGuide) and detector._stored is None:
            return guided(seen, detector, self.neighbours)
        bank = own_bank(detector)
        if bank is None:
            return [None] * len(seen)
        return nearest(seen, bank, self._seen, self.neighbours)

    def _seen(self, features: Tensor) -> Tensor:
        """Features in float64 as the head and the score see them: unit rows of a cosine head, shaped."""
        detector, head = self.guard.detector, self.guard.head
        device = self.guard.rate.device if head is None else head.weight.device
        rows = as_float(features).to(device, torch.float64)
        return detector._shaped(rows if head is None else head.prepare(rows))

    # ------------------------------------------------------------------ what all samples share

    def _chosen_station(self) -> Station | None:
        head, bank = self.guard.head, self._given
        if head is None:
            return None
        mean = None if bank is None else lambda: bank.mean(self._seen)
        return station_of(self.guard.detector, head, mean, "" if bank is None else bank.of)

    def _id_angles(self) -> tuple[IdAngles | None, str | None]:
        """The angles of ID samples: calibration scores that are such angles, or those of a bank."""
        station, head = self._station, self.guard.head
        if station is None or station.stations is None or head is None:
            return None, None
        if station.decides:
            scores = self.guard.calibration.scores
            return _spread(scores, "the calibration scores, which are angles"), None
        if self._given is None:
            return None, (
                "the angles of ID samples are not known: the guard keeps their scores, which are no angles. "
                "Give ID features to see them (bank=, --bank)"
            )
        parts = []
        for rows in self._given.spread():
            require_finite(as_float(rows), self._given.of)
            for tile in torch.split(rows, _TILE) if len(rows) else ():
                seen = self._seen(tile)
                parts.append(station.angles(seen, head.logits(seen)).cpu())
        return _spread(torch.cat(parts).numpy(), self._given.of), None

    def _notes(self, label: int, place: Geometry | None, near: Neighbours | None) -> tuple[str, ...]:
        """What is left out or differs, in words."""
        guard, notes = self.guard, list[str]()
        if guard.head is None:
            notes.append("the guard has no head: there are no classes, no boundaries and no triangle")
        elif place is None:
            notes.append(
                "no boundary can be measured: no other class has weights of its own, or the numbers overflow"
            )
        if guard.head is not None and guard.head.unit_features:
            notes.append("probabilities are a softmax of cosines, without the temperature of the model")
        if place is not None and label not in (NO_CLASS, place.label):
            shaping = guard.detector.shaping
            how = "without rounding" if shaping is None else f"after {shaping.title}"
            notes.append(f"boundaries and triangle are those of {place.name}, the class {how}")
        if place is not None and self._station is not None and self._station.missing is not None:
            notes.append(self._station.missing)
        if place is not None and place.triangle is not None and not place.triangle.decides:
            notes.append(
                f"the score, {guard.detector.record.title}, is not this angle: the triangle shows where the "
                f"sample stands"
            )
        if place is not None and self._angle_note is not None:
            notes.append(self._angle_note)
        if near is None and not guard.detector.of_layers:
            notes.append(
                "the features are all zero and point nowhere: nothing is near them"
                if self._given is not None or own_bank(guard.detector) is not None
                else "the guard keeps no ID samples to compare with: give ID features (bank=, --bank)"
            )
        return tuple(notes)


def _spread(radians: FloatArray, of: str) -> IdAngles:
    low, median, high = np.rad2deg(np.quantile(radians, _QUANTILES)).tolist()
    return IdAngles(low, median, high, len(radians), of)
