"""Scores kept on disk, each under a key of everything that decides it: features, head, score, code.

The code is that of the detectors and of all they stand on, and of the loop that scores a set; a comment, or
an edit of a command, of a model source or of a page leaves every key as it is. Of a score of one's own it is
its module and all of the same hand that this imports; where that cannot be known, its scores are not kept.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch

from ..core.arrays import FloatArray
from ..core.code import code_behind
from ..core.errors import FormatError
from ..core.files import read_tensors, sha256, write_tensors
from ..core.own_code import own_digest
from ..detectors import Detector
from ..detectors.spec import DetectorSpec
from ..features.head_files import head_digest
from .feature_sets import StoreSet
from .subject import Subject

_FORMAT = "theodolite-scores/1"
# Where features become scores.
_CODE = ("detectors", "benchmarks.scoring")


class ScoreCache:
    """Scores of one subject; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, subject: Subject) -> None:
        self.folder = folder
        self.subject = subject
        self._head = head_digest(subject.head) if folder is not None else ""
        self._paths: dict[tuple[str, str], Path] = {}
        self._own: dict[tuple[type[Detector], ...], str | None] = {}

    def keeps(self, spec: DetectorSpec) -> bool:
        """Whether there is a folder, and all is known that decides the scores."""
        return self.folder is not None and self._own_code(spec) is not None

    def read(self, spec: DetectorSpec, name: str) -> FloatArray | None:
        """The scores of a set, if they are there and whole."""
        if not self.keeps(spec) or not self.path(spec, name).is_file():
            return None
        try:
            tensors, _ = read_tensors(self.path(spec, name), _FORMAT)
        except FormatError:
            return None  # damaged: computed again and replaced
        return tensors["scores"].numpy()

    def write(self, spec: DetectorSpec, name: str, scores: FloatArray) -> None:
        if self.folder is None or not self.keeps(spec):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"format": _FORMAT, "model": self.subject.name, "entry": spec.label, "set": name}
        write_tensors(self.path(spec, name), {"scores": torch.from_numpy(scores)}, about)

    def path(self, spec: DetectorSpec, name: str) -> Path:
        """The file of a spec's scores on a set."""
        assert self.folder is not None
        known = self._paths.get((spec.label, name))
        if known is None:
            known = self.folder / f"{self._key(spec, name)[:32]}.safetensors"
            self._paths[spec.label, name] = known
        return known

    def _key(self, spec: DetectorSpec, name: str) -> str:
        decides: dict[str, object] = {
            "code": code_behind(*_CODE),
            "head": self._head,
            "fit": self.subject.fit.digest,
            "rows": self.subject.judged[name].digest,
            "entry": [spec.name, spec.options, spec.shaping],
        }
        if own := self._own_code(spec):
            decides["own code"] = own
        if "store" in spec.options:
            decides["store"] = StoreSet(Path(str(spec.options["store"]))).digest
        if "negatives" in spec.options:
            decides["negatives"] = _content(str(spec.options["negatives"]))
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()

    def _own_code(self, spec: DetectorSpec) -> str | None:
        """Digest of scores of one's own; empty for ours, which the key covers; None if it is not known.

        A score may hold others: one on every layer does.
        """
        parts = [type(one) for one in spec.template.modules() if isinstance(one, Detector)]
        kinds = tuple(dict.fromkeys(parts))
        if kinds not in self._own:
            own = {kind: _not_ours(kind) for kind in kinds if _not_ours(kind)}
            entered = min((kind.record.entered for kind in own), default=0.0)
            classes = dict.fromkeys(part for found in own.values() for part in found)
            self._own[kinds] = own_digest(classes, imported=entered) if own else ""
        return self._own[kinds]


def _content(file: str) -> str | None:
    """The checksum of a file that a score reads; None where there is none, which its fit refuses."""
    place = Path(file).expanduser()
    return sha256(place) if place.is_file() else None


def _not_ours(kind: type[Detector]) -> list[type[Detector]]:
    """The classes that a detector is made of, and that do not come with the package."""
    package = __name__.split(".")[0]
    return [
        part
        for part in kind.__mro__
        if issubclass(part, Detector) and not part.__module__.startswith(f"{package}.")
    ]
