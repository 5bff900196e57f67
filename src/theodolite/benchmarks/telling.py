"""The samples worth a look: ID samples that score lowest, OOD samples that score highest.

Where an ORA is among the detectors, each comes with the triangle that decided its angle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..core.arrays import Array, FloatArray, as_tensor
from ..core.code import code_behind
from ..core.errors import FormatError, InputError, did_you_mean
from ..core.files import read_json, write_bytes
from ..core.plain import from_plain, to_plain
from ..detectors import ORA, Detector
from ..evaluation import Evaluation
from .feature_sets import TEST, FeatureSet
from .scoring import Scorer

Picture: TypeAlias = Callable[[str, int], Image.Image | None]
COUNT = 12
DRAWN = "ORA"


@dataclass(frozen=True)
class Triangle:
    """The sides that decided an angle, as `ORA.sight` sees them."""

    angle: float
    distance: float
    centre_distance: float
    height: float


@dataclass(frozen=True)
class TellingSample:
    """One sample: its row in its set, its score, what it was taken for, and its picture if there is one.

    ``p_value`` is the share of ID samples that score as low, itself counted; None where it was not asked.
    """

    row: int
    id: str
    score: float
    predicted: str
    data_set: str
    truth: str | None = None
    p_value: float | None = None
    triangle: Triangle | None = None
    picture: Image.Image | None = field(default=None, compare=False, repr=False)


def telling_samples(
    detector: Detector,
    features: Tensor | Array,
    scores: FloatArray,
    *,
    lowest: bool,
    count: int,
    data_set: str,
    class_name: Callable[[int], str] = str,
    labels: Sequence[int] | Array | Tensor | None = None,
    picture: Callable[[int], Image.Image | None] = lambda _: None,
    sample_id: Callable[[int], str] = "#{}".format,
) -> list[TellingSample]:
    """The ``count`` samples that score lowest or highest, the most extreme first.

    The callables take a sample's index. Triangles are drawn for an ORA with a single centre.
    """
    order = np.argsort(scores if lowest else -scores, kind="stable")[:count]
    rows = as_tensor(features, "features")[order.copy()]
    predicted, triangles = _seen(detector, rows)
    return [
        TellingSample(
            row=index,
            id=sample_id(index),
            score=float(scores[index]),
            predicted=class_name(predicted[place]),
            truth=None if labels is None else class_name(int(labels[index])),
            data_set=data_set,
            triangle=triangles[place],
            picture=picture(index),
        )
        for place, index in enumerate(order.tolist())
    ]


def with_p_values(
    samples: Sequence[TellingSample], id_scores: FloatArray, *, among: bool = False
) -> list[TellingSample]:
    """The samples with their conformal p-values against ID scores, as a guard would compute them.

        p = (1 + #{ID scores ≤ s}) / (1 + n)

    With ``among`` the samples are of these very ID data, and each is held against the others.
    """
    ordered, own = np.sort(id_scores), int(among)
    lower = np.searchsorted(ordered, [sample.score for sample in samples], side="right")
    return [
        replace(sample, p_value=float(1 + below - own) / (1 + len(ordered) - own))
        for sample, below in zip(samples, lower, strict=True)
    ]


def find_telling(
    scorer: Scorer, found: Evaluation, chosen: str, picture: Picture = lambda _set, _row: None
) -> list[TellingSample]:
    """The telling samples of a run by the score ``chosen``; kept on disk beside its scores."""
    if chosen not in found.metrics:
        if chosen != DRAWN and chosen not in {spec.label for spec in scorer.specs}:
            labels = [spec.label for spec in scorer.specs]
            raise InputError(
                f"no score of this run is called {chosen!r}{did_you_mean(chosen, labels)} It has: "
                f"{', '.join(labels)}"
            )
        return []
    if chosen not in {spec.label for spec in scorer.own}:
        return []  # what it looked at are not the features that are drawn
    place = _place(scorer, chosen)
    kept = _read(place)
    if kept is None:
        kept = _found(scorer, found, chosen)
        if place is not None:
            write_bytes(place, json.dumps(to_plain(kept)).encode())
    return [replace(sample, picture=_picture(picture, sample)) for sample in kept]


def _picture(picture: Picture, sample: TellingSample) -> Image.Image | None:
    """The picture of a sample; one that is not there, or cannot be read, costs nobody the run."""
    try:
        return picture(sample.data_set, sample.row)
    except (OSError, ValueError, IndexError):
        return None


def _found(scorer: Scorer, found: Evaluation, chosen: str) -> list[TellingSample]:
    """The ID samples that score lowest, and of every OOD set those that score highest."""
    subject = scorer.subject
    detector = scorer.fitted(DRAWN if DRAWN in found.metrics else chosen)
    known = found.id_scores[chosen]
    kept = with_p_values(
        _of_set(detector, subject.test, known, TEST, lowest=True, count=COUNT), known, among=True
    )
    share = max(1, COUNT // len(subject.ood))
    for name, rows in subject.ood.items():
        highest = _of_set(detector, rows, found.ood_scores[chosen][name], name, lowest=False, count=share)
        kept += with_p_values(highest, known)
    return kept


def _of_set(
    detector: Detector, rows: FeatureSet, scores: FloatArray, name: str, *, lowest: bool, count: int
) -> list[TellingSample]:
    order = np.argsort(scores if lowest else -scores, kind="stable")[:count].tolist()
    features, labels = _rows(rows, order)
    names = rows.class_names
    samples = telling_samples(
        detector,
        features,
        scores[order],
        lowest=lowest,
        count=count,
        data_set=name,
        class_name=lambda label: names[label] if names is not None and label < len(names) else str(label),
        labels=labels if name == TEST else None,
        sample_id=lambda place: f"#{order[place]}",
    )
    return [replace(sample, row=row) for row, sample in zip(order, samples, strict=True)]


def _seen(detector: Detector, rows: Tensor) -> tuple[list[int], list[Triangle | None]]:
    """Predicted classes, and the deciding triangles where the detector sees such."""
    assert detector.head is not None
    if not isinstance(detector, ORA) or str(detector.centre).startswith("sum"):
        return detector.head(rows).argmax(dim=1).tolist(), [None] * len(rows)
    seen = detector.sight(rows)
    sides = zip(seen.angle, seen.distance, seen.centre_distance, seen.height, strict=True)
    return seen.predicted.tolist(), [Triangle(*(float(side) for side in part)) for part in sides]


def _rows(rows: FeatureSet, wanted: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Some rows of a set in the order wanted, found in one pass."""
    places: Mapping[int, int] = {row: place for place, row in enumerate(wanted)}
    features: list[Tensor] = [torch.empty(0)] * len(wanted)
    labels: list[int | None] = [None] * len(wanted)
    start = 0
    for batch, batch_labels, _ in rows:
        for row in places.keys() & range(start, start + len(batch)):
            features[places[row]] = batch[row - start].float()
            label = -1 if batch_labels is None else int(batch_labels[row - start])
            labels[places[row]] = None if label < 0 else label
        start += len(batch)
    known = [label for label in labels if label is not None]
    return torch.stack(features), torch.tensor(known) if len(known) == len(wanted) else None


def _place(scorer: Scorer, chosen: str) -> Path | None:
    """The file of a run's samples, named by the scores that chose and drew them."""
    folder, specs = scorer.cache.folder, {spec.label: spec for spec in scorer.own}
    used = [specs[label] for label in (chosen, DRAWN) if label in specs]
    if folder is None or not all(scorer.cache.keeps(spec) for spec in used):
        return None
    digest = hashlib.sha256(code_behind("benchmarks.telling").encode())
    for label in dict.fromkeys((chosen, DRAWN)):
        for name, rows in scorer.subject.judged.items() if label in specs else ():
            kept = scorer.cache.path(specs[label], name).name
            digest.update(f"{label}\0{name}\0{kept}\0{rows.class_names}\n".encode())
    return folder / f"telling-{digest.hexdigest()[:32]}.json"


def _read(place: Path | None) -> list[TellingSample] | None:
    if place is None or not place.is_file():
        return None
    try:
        return from_plain(list[TellingSample], read_json(place))
    except FormatError:
        return None  # damaged: found again and replaced
