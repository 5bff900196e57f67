"""Guards on disk: head, detector and calibration in one safetensors file; ready-made ones by name.

A file is read into the parts that a guard is built from, and nothing is run for it: a guard stored without
its head takes it from its model, which only `Guard.load` brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from torch import Tensor

from .._version import __version__
from ..core.errors import InputError
from ..core.files import read_tensors, undamaged, write_tensors
from ..core.plain import JsonObject, JsonValue, from_plain, to_plain
from ..detectors._storage import FORMAT as DETECTOR_FORMAT
from ..detectors._storage import PackedDetector, read_detector
from ..reference.head import Head
from .by_class import ClassCalibration
from .calibrated import Calibrated
from .calibration import Calibration
from .origin import Origin
from .provenance import Provenance

FORMAT = "theodolite-guard/1"
# Calibrated by class: a version that knows only the first must not take it for one with a single threshold.
FORMAT_BY_CLASS = "theodolite-guard/2"
REMEDY = "fit the guard again"
_DETECTOR = "detector."


@dataclass(frozen=True)
class GuardParts:
    """What a guard is made of. ``head`` is None where the model has it, or the guard is ``headless``."""

    detector: PackedDetector
    calibration: Calibration
    head: Head | None
    provenance: Provenance | None
    class_names: tuple[str, ...] | None
    false_alarm_rate: float
    headless: bool = False
    origin: Origin | None = None
    calibrated: Calibrated | None = None


@dataclass(frozen=True)
class StoredFile:
    """A guard or a fitted detector as it lies on disk, and the version that wrote it."""

    path: Path
    written_by: str
    content: GuardParts | PackedDetector


def write_guard(path: str | Path, parts: GuardParts) -> None:
    """Write a guard atomically."""
    write_tensors(Path(path), tensors_of(parts), describe(parts))


def tensors_of(parts: GuardParts) -> dict[str, Tensor]:
    """The tensors of a guard. The detector's head is the guard's, and is stored once or not at all."""
    stored = {_DETECTOR + name: tensor for name, tensor in parts.detector.without_head().items()}
    stored["calibration.scores"] = parts.calibration.sorted_scores
    if isinstance(parts.calibration, ClassCalibration):
        stored["calibration.predicted"] = parts.calibration.predicted
        stored["calibration.groups"] = parts.calibration.groups
    if parts.head is not None:
        stored |= {"head.weight": parts.head.weight, "head.bias": parts.head.bias}
    elif parts.provenance is None and not parts.headless:
        raise InputError(
            "a guard without provenance needs its head in the file: nothing says where to find it"
        )
    return stored


def describe(parts: GuardParts) -> JsonObject:
    """All that a guard is beside its tensors; what is not known of it is left out."""
    more = {"headless": parts.headless, "origin": parts.origin, "calibrated": parts.calibrated}
    return {
        "format": FORMAT_BY_CLASS if isinstance(parts.calibration, ClassCalibration) else FORMAT,
        "theodolite": __version__,
        "detector": parts.detector.description,
        "provenance": _of_provenance(parts.provenance),
        "false_alarm_rate": parts.false_alarm_rate,
        "class_names": parts.class_names,
        **{name: _known(value) for name, value in more.items() if value},
    }


def _of_provenance(provenance: Provenance | None) -> JsonValue:
    """As a guard of 0.1.0 has it where nothing is known of the orientation."""
    said = _known(provenance)
    if isinstance(said, dict) and said["orientation"] is None:
        del said["orientation"]
    return said


def _known(value: object) -> JsonValue:
    """A record as before there were scores that ask more of a model, where the guard's does not."""
    said = to_plain(value)
    if isinstance(said, dict) and said.get("model_score", "") is None:
        del said["model_score"]
    return said


def read_guard(path: str | Path) -> GuardParts:
    """The parts of the guard in a file, or of a ready-made one by its name."""
    source = find(path)
    tensors, description = read_tensors(source, FORMAT, FORMAT_BY_CLASS)
    with undamaged(source, REMEDY):
        return guard_parts(tensors, description)


def inspect_file(path: str | Path) -> StoredFile:
    """The guard or the fitted detector in a file, without the model or the data it refers to."""
    source = find(path)
    if source.is_dir():
        raise InputError(f"{source} is a folder without manifest.json: not a feature store of theodolite")
    tensors, description = read_tensors(source, FORMAT, FORMAT_BY_CLASS, DETECTOR_FORMAT)
    content: GuardParts | PackedDetector
    if description["format"] != DETECTOR_FORMAT:
        with undamaged(source, REMEDY):
            content = guard_parts(tensors, description)
    else:
        content = read_detector(source, tensors, description)
    return StoredFile(source, str(description.get("theodolite")), content)


def find(path: str | Path) -> Path:
    """The file of a guard: the path itself, or a ready-made guard of that name."""
    if Path(path).exists():
        return Path(path)
    ready = {Path(entry.name).stem: entry for entry in resources.files("theodolite.guard.ready").iterdir()}
    entry = ready.get(str(path))
    if isinstance(entry, Path) and entry.suffix == ".safetensors":
        return entry
    raise InputError(f"no such file: {path}. Ready-made guards: {', '.join(ready_made())}")


def ready_made() -> list[str]:
    """The names of the guards that come with the package."""
    names = (Path(entry.name) for entry in resources.files("theodolite.guard.ready").iterdir())
    return sorted(name.stem for name in names if name.suffix == ".safetensors")


@dataclass(frozen=True)
class Description:
    """A guard in a file's header."""

    format: str
    theodolite: str
    detector: JsonValue
    provenance: Provenance | None
    false_alarm_rate: float
    class_names: tuple[str, ...] | None
    headless: bool = False
    origin: Origin | None = None
    calibrated: Calibrated | None = None


def read_description(description: JsonObject) -> Description:
    """The header as a record; refused if it is no guard's."""
    return from_plain(Description, description, "the guard")


def read_calibration(said: Description, tensors: Mapping[str, Tensor], scores: str) -> Calibration:
    """The calibration in the tensors of a guard, by class where its description says so."""
    if said.format != FORMAT_BY_CLASS:
        return Calibration(tensors[scores])
    return ClassCalibration(tensors[scores], tensors["calibration.predicted"], tensors["calibration.groups"])


def guard_parts(tensors: Mapping[str, Tensor], description: JsonObject) -> GuardParts:
    """The guard that tensors and a description are."""
    said = read_description(description)
    own = {name.removeprefix(_DETECTOR): tensors[name] for name in tensors if name.startswith(_DETECTOR)}
    detector, head = PackedDetector.described(said.detector, own), None
    if "head.weight" in tensors:
        head = Head(tensors["head.weight"], tensors["head.bias"], unit_features=detector.unit_features)
    return GuardParts(
        detector=detector,
        calibration=read_calibration(said, tensors, "calibration.scores"),
        head=head,
        provenance=said.provenance,
        class_names=said.class_names,
        false_alarm_rate=said.false_alarm_rate,
        headless=said.headless,
        origin=said.origin,
        calibrated=said.calibrated,
    )
