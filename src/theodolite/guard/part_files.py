"""What a part's file says in its header, and the pieces of a part as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..core.errors import FormatError
from ..core.plain import JsonValue, to_plain
from ..detectors import Detector, create
from ..detectors._registry import OptionValue
from ..detectors.shaping import SHAPINGS, Learner
from ..reference.looks import Look
from ..reference.reference import Reference
from ..reference.storage import StatisticsRecord
from .fitted_rows import RowCount
from .part_source import PartSource

FORMAT = "theodolite-part/1"
REMEDY = "collect the part again"


@dataclass(frozen=True)
class StoredView:
    """One view of the features and the statistics of what was seen; ``width`` is that of the features where
    what was seen has another."""

    view: str
    statistics: StatisticsRecord
    width: int | None = None

    @classmethod
    def of(cls, reference: Reference) -> StoredView:
        own = reference.width if reference.width != reference.statistics.width else None
        return cls(reference.view, StatisticsRecord.of(reference.statistics), own)


@dataclass(frozen=True)
class StoredDetector:
    """A score that was asked for, unfitted."""

    name: str
    options: Mapping[str, OptionValue]


@dataclass(frozen=True)
class Description:
    """A part in a file's header."""

    format: str
    theodolite: str
    detectors: tuple[StoredDetector, ...]
    views: tuple[StoredView, ...]
    unit_features: bool
    width: int
    share: float
    kept: float
    fitted_on: int
    samples: int
    contents: int | None
    rows: Mapping[str, RowCount]
    source: PartSource


def pack_detectors(detectors: Sequence[Detector]) -> tuple[dict[str, Tensor], JsonValue]:
    """What the shapings of unfitted detectors have learnt, and what the detectors are."""
    tensors = {
        f"shaping.{place}.{name}": buffer
        for place, detector in enumerate(detectors)
        if detector.shaping is not None
        for name, buffer in detector.shaping.named_buffers()
    }
    return tensors, to_plain([StoredDetector(one.record.name, one.options()) for one in detectors])


def unpack_detectors(stored: Sequence[StoredDetector], tensors: Mapping[str, Tensor]) -> tuple[Detector, ...]:
    """The detectors, unfitted."""
    found = tuple(create(one.name, **one.options) for one in stored)
    for place, detector in enumerate(found):
        prefix = f"shaping.{place}."
        for name, tensor in tensors.items():
            if name.startswith(prefix):
                if detector.shaping is None:
                    raise FormatError(f"{name} belongs to no shaping")
                detector.shaping.register_buffer(name.removeprefix(prefix), tensor)
    return found


def pack_looks(looks: Mapping[str, Look]) -> dict[str, Tensor]:
    """What a first look counted, each under its name."""
    return {
        f"{name}.{part}": tensor for name, look in looks.items() for part, tensor in look.packed().items()
    }


def unpack_looks(tensors: Mapping[str, Tensor]) -> dict[str, Look]:
    """None where the part is no first look."""
    found: dict[str, Look] = {}
    for kind in (shaping.looks for shaping in SHAPINGS.values() if issubclass(shaping, Learner)):
        prefix = f"{kind.name}."
        own = {name.removeprefix(prefix): one for name, one in tensors.items() if name.startswith(prefix)}
        if own:
            found[kind.name] = kind.unpacked(own)
    return found
