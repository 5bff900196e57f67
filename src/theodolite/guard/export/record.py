"""What an exported file says of itself: whose verdicts they are, what goes in and out, what was compared."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ...core.errors import FormatError
from ...core.files import parse_json
from ...core.plain import from_plain, to_plain
from ...detectors._registry import OptionValue
from ...models.preprocess import Pixels
from ..by_class import ClassCalibration
from ..calibration import Calibration
from ..origin import Origin
from ..provenance import Provenance

FORMAT = "theodolite-export/1"
FEATURES, IMAGES, PICTURES = "features", "images", "pictures"
# What inputs are called that the caller named.
REAL = "real"
# Under this name the description lies in a file: an entry of the metadata, or a file of the archive.
ENTRY = "theodolite.json"


@dataclass(frozen=True)
class StoredCalibration:
    """The scores, lowest first, float64 in base64; by class with the classes predicted for them."""

    count: int
    scores: str
    predicted: tuple[int, ...] | None = None
    groups: tuple[int, ...] | None = None

    @classmethod
    def of(cls, calibration: Calibration) -> StoredCalibration:
        scores = base64.b64encode(calibration.scores.astype("<f8").tobytes()).decode()
        if not isinstance(calibration, ClassCalibration):
            return cls(len(calibration), scores)
        predicted, groups = calibration.predicted.tolist(), calibration.groups.tolist()
        return cls(len(calibration), scores, tuple(predicted), tuple(groups))

    def restored(self) -> Calibration:
        scores = torch.from_numpy(np.frombuffer(base64.b64decode(self.scores, validate=True), "<f8").copy())
        if len(scores) != self.count:
            raise FormatError(f"its calibration has {len(scores)} scores, not {self.count}")
        if self.predicted is None or self.groups is None:
            return Calibration(scores)
        return ClassCalibration(scores, torch.tensor(self.predicted), torch.tensor(self.groups))


@dataclass(frozen=True)
class Preprocessing:
    """How pictures become the images that the model takes.

    ``inside`` the graph, or before it. ``pixels`` are the parts in numbers, None where the model's own way,
    ``name``, has other ones. With ``orientation`` pictures are turned as EXIF says first; a graph never does
    that.
    """

    inside: bool
    pixels: Pixels | None
    name: str | None
    orientation: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Compared:
    """The graph's verdicts beside PyTorch's on ``rows`` inputs of a kind.

    ``score_difference`` is the largest, relative to the score or to the median calibration score, whichever
    is larger; ``ranks`` the most places that a p-value moved among the calibration scores; ``verdicts`` and
    ``classes`` count rows that came out otherwise because scores, or logits, tied. ``beyond`` counts those
    off by more than the tolerance, because their score moves as far when the input does in its last digit.
    """

    inputs: str
    rows: int
    score_difference: float
    ranks: int
    verdicts: int = 0
    classes: int = 0
    beyond: int = 0


@dataclass(frozen=True)
class Versions:
    theodolite: str
    torch: str
    opset: int | None


@dataclass(frozen=True)
class ExportRecord:
    """The description in an exported file. ``shape`` is that of the input, None for a side of any length."""

    format: str
    takes: str
    shape: tuple[int | None, ...]
    outputs: tuple[str, ...]
    score: str
    title: str
    options: Mapping[str, OptionValue]
    width: int
    class_names: tuple[str, ...] | None
    provenance: Provenance | None
    origin: Origin | None
    calibration: StoredCalibration
    false_alarm_rate: float
    preprocessing: Preprocessing | None
    versions: Versions
    compared: tuple[Compared, ...]

    def text(self) -> str:
        return json.dumps(to_plain(self), ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def parsed(cls, text: str | bytes, name: str) -> ExportRecord:
        """The record that a text describes; ``name`` is that of the file it lies in."""
        said = parse_json(text, f"the description in {name}")
        found = said.get("format") if isinstance(said, dict) else None
        if found != FORMAT:
            raise FormatError(f"{name} has format {found!r}; expected {FORMAT}: export the guard again")
        record = from_plain(cls, said, f"the description in {name}")
        if record.takes not in (FEATURES, IMAGES, PICTURES):
            raise FormatError(
                f"{name} takes {record.takes!r}, which is not known here: export the guard again"
            )
        return record
