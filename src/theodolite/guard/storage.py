"""Guards on disk: head, detector and calibration in one safetensors file; ready-made ones by name."""

from __future__ import annotations

import dataclasses
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._version import __version__
from ..core.errors import FormatError, InputError
from ..core.files import read_tensors, write_tensors
from ..detectors._storage import pack, unpack
from ..reference.head import Head
from .calibration import Calibration
from .guard import Guard, Provenance, require_model, trusted_spec

FORMAT = "theodolite-guard/1"
_DETECTOR = "detector."


def save(guard: Guard, path: str | Path, *, with_head: bool) -> None:
    """Write a guard atomically. The detector's head is the guard's, and is stored once or not at all."""
    tensors, detector = pack(guard.detector)
    stored = {_DETECTOR + name: tensor for name, tensor in tensors.items() if not name.startswith("head.")}
    stored["calibration.scores"] = torch.from_numpy(guard.calibration.scores)
    if with_head:
        stored |= {"head.weight": guard.head.weight, "head.bias": guard.head.bias}
    elif guard.provenance is None:
        raise InputError(
            "a guard without provenance needs its head in the file: nothing says where to find it"
        )
    description = {
        "format": FORMAT,
        "theodolite": __version__,
        "detector": detector,
        "provenance": None if guard.provenance is None else dataclasses.asdict(guard.provenance),
        "false_alarm_rate": guard.false_alarm_rate,
        "class_names": guard.class_names,
    }
    write_tensors(Path(path), stored, description)


def load(path: str | Path, *, model: str | None = None) -> Guard:
    """A guard from a file or by name; one stored without its head takes it from its model."""
    source = find(path)
    tensors, description = read_tensors(source, FORMAT)
    try:
        return _rebuild(tensors, description, model)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{source} is damaged: {error}. Remedy: fit the guard again") from error


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


def _rebuild(tensors: dict[str, Tensor], description: dict[str, Any], model: str | None) -> Guard:
    origin = description["provenance"]
    provenance = None if origin is None else Provenance(**origin)
    loaded = None
    if "head.weight" in tensors:
        unit = description["detector"]["unit_features"]
        head = Head(tensors["head.weight"], tensors["head.bias"], unit_features=unit)
    elif provenance is None:
        raise FormatError("the guard has neither a head nor a model to take it from")
    else:
        loaded, head = _head_of_model(provenance, model)
    own = {
        name.removeprefix(_DETECTOR): tensor for name, tensor in tensors.items() if name.startswith(_DETECTOR)
    }
    guard = Guard(
        unpack(own, description["detector"], head=head),
        Calibration(tensors["calibration.scores"]),
        head=head,
        class_names=description["class_names"],
        provenance=provenance,
        false_alarm_rate=description["false_alarm_rate"],
    )
    return guard if loaded is None else guard.attach(loaded)


def _head_of_model(provenance: Provenance, model: str | None) -> tuple[Any, Head]:
    from ..features.checked import probe
    from ..models import load_model

    weights = None if provenance.weights_file is None else Path(provenance.weights_file)
    loaded = load_model(trusted_spec(provenance, model), weights=weights)
    require_model(provenance, loaded)
    return loaded, probe(loaded, provenance.layer).head
