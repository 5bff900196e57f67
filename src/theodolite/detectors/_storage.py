"""Fitted detectors as tensors and a description, and as safetensors files. Never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._version import __version__
from ..core.errors import FormatError, InputError, NotFittedError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain
from ..reference.head import Head
from ._precision import require_finite_state
from ._registry import OptionValue, create

if TYPE_CHECKING:
    from ._base import Detector

FORMAT = "theodolite-detector/1"
_HEAD = "head."
# What the header of every file has.
_OF_FILE = ("format", "theodolite")


@dataclass(frozen=True)
class _Description:
    """A detector in a file's header."""

    detector: str
    options: Mapping[str, OptionValue]
    width: int
    unit_features: bool


@dataclass(frozen=True)
class PackedDetector:
    """Everything a fitted detector is: name, options, buffers (the head's begin with ``head.``)."""

    name: str
    options: Mapping[str, OptionValue]
    width: int
    unit_features: bool
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, detector: Detector) -> PackedDetector:
        """A fitted detector, taken apart."""
        if not hasattr(type(detector), "record"):
            raise InputError(
                f"{type(detector).__name__} is not registered: decorate the class with "
                f"theodolite.register, which gives it the name it is stored under"
            )
        if detector.width is None:
            raise NotFittedError(f"{detector.record.title} is not fitted: there is nothing to save")
        unit_features = detector.head is not None and detector.head.unit_features
        tensors = dict(detector.named_buffers())
        return cls(detector.record.name, detector.options(), detector.width, unit_features, tensors)

    @classmethod
    def described(cls, description: JsonValue, tensors: Mapping[str, Tensor]) -> PackedDetector:
        """The detector that a file's description and tensors are."""
        said = from_plain(_Description, description, "the detector")
        return cls(said.detector, said.options, said.width, said.unit_features, tensors)

    @property
    def description(self) -> JsonObject:
        """All but the tensors."""
        return {
            "detector": self.name,
            "options": to_plain(self.options),
            "width": self.width,
            "unit_features": self.unit_features,
        }

    def unpack(self, *, head: Head | None = None) -> Detector:
        """The fitted detector; a ``head`` given stands in for one left out of the tensors.

        It scores a row once: parts that do not fit each other are found now, not when it is needed.
        """
        detector = create(self.name, **self.options)
        stored = {name.removeprefix(_HEAD): self.tensors[name] for name in self.tensors if _of_head(name)}
        if stored:
            head = Head(stored["weight"], stored["bias"], unit_features=self.unit_features)
        detector.head = head
        detector.width = self.width
        for name, tensor in self.tensors.items():
            if not _of_head(name):
                parent, _, leaf = name.rpartition(".")
                module: torch.nn.Module = detector.get_submodule(parent)
                module.register_buffer(leaf, tensor)
        require_finite_state(detector)
        detector._build()
        detector._frozen = True
        if not getattr(detector, "store", None):  # a bank on disk is compared with its own checksums
            detector._scores(detector._checked(torch.zeros(1, self._checked_width(head))), None)
        return detector

    def _checked_width(self, head: Head | None) -> int:
        """The width, if the tensors bear it out."""
        widest = max((tensor.numel() for tensor in self.tensors.values()), default=0)
        if self.width != head.width if head is not None else not 0 < self.width <= widest:
            raise FormatError(f"its width is {self.width}, which its tensors do not have")
        return self.width

    def without_head(self) -> dict[str, Tensor]:
        """The detector's own tensors, for a file that has the head elsewhere."""
        return {name: tensor for name, tensor in self.tensors.items() if not _of_head(name)}


def save(detector: Detector, path: str | Path) -> None:
    """Write a fitted detector to one file, atomically."""
    packed = PackedDetector.of(detector)
    description = {"format": FORMAT, "theodolite": __version__, **packed.description}
    write_tensors(Path(path), packed.tensors, description)


def load(path: str | Path) -> Detector:
    """A fitted detector from a file written by `Detector.save`.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> th.MDS().fit(train, labels).save("mds.safetensors")
    >>> th.load("mds.safetensors").record.title
    'MDS'
    """
    packed = read_detector(Path(path), *read_tensors(Path(path), FORMAT))
    with undamaged(path, "fit the detector again"):
        return packed.unpack()


def read_detector(path: Path, tensors: Mapping[str, Tensor], description: JsonObject) -> PackedDetector:
    """The detector in a file of its own, whose header also says what wrote it."""
    own = {key: value for key, value in description.items() if key not in _OF_FILE}
    with undamaged(path, "fit the detector again"):
        return PackedDetector.described(own, tensors)


def _of_head(name: str) -> bool:
    return name.startswith(_HEAD)
