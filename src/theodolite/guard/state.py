"""The state of a guard: all that its verdicts depend on, in tensors, as `state_dict` gives it.

Beside its buffers it has a description, the header of the guard's file as bytes: which score with which
options, whose features, which classes. A state is taken whole or refused: what is loaded gives the verdicts
of the guard it was taken from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core.errors import FormatError, InputError
from ..core.files import undamaged
from ..core.plain import to_plain
from ..detectors._storage import PackedDetector
from ..reference.head import Head
from .provenance import require_model
from .storage import Description, GuardParts, describe, read_calibration, read_description

if TYPE_CHECKING:
    from .guard import Guard

_DESCRIPTION = "_extra_state"
_MODEL = "model."
_DETECTOR = "detector."


def description_bytes(parts: GuardParts) -> Tensor:
    """What a guard is beside its tensors, as one more tensor: any way to store a state dict keeps it."""
    text = json.dumps(describe(parts), sort_keys=True)
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def restore(guard: Guard, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Before a state is loaded: give the guard parts of the state's sizes, or refuse it."""
    own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    of_model = {name for name in own if name.startswith(_MODEL)}
    _require_model_keys(guard, of_model)
    said = _read(own)
    _require_same_score(guard, said)
    tensors = {name: value for name, value in own.items() if name not in of_model}
    try:
        restored = _rebuilt(guard, said, tensors)
    except RuntimeError as error:  # PyTorch's, of tensors whose shapes do not fit each other
        raise FormatError(f"the state dict is damaged: {error}. Remedy: take it anew") from error
    if guard.loaded is not None:
        require_model(restored.provenance, guard.loaded)
    device = guard.rate.device
    guard.head = None if restored.head is None else restored.head.to(device)
    guard.detector = restored.detector.to(device)
    guard.calibration = restored.calibration.to(device)
    guard.class_names, guard.provenance = restored.class_names, restored.provenance
    guard.false_alarm_rate = restored.false_alarm_rate
    guard.origin, guard.calibrated = restored.origin, restored.calibrated
    guard._capture = None  # what was checked of the model was checked for the guard before


def _read(own: Mapping[str, Tensor]) -> Description:
    stored = own.get(_DESCRIPTION)
    if not isinstance(stored, Tensor):
        raise InputError(
            "the state dict is not a guard's, or was taken by theodolite 0.1: it lacks the calibration, "
            "without which no verdict can be restored. Take it anew with guard.state_dict(), or load the "
            "guard's file with Guard.load"
        )
    try:
        text = json.loads(bytes(stored.cpu().to(torch.uint8).tolist()))
    except ValueError as error:
        raise FormatError(f"the state dict is damaged: its description cannot be read ({error})") from error
    with undamaged("the state dict", "take it anew with guard.state_dict()"):
        return read_description(text)


def _require_model_keys(guard: Guard, of_model: set[str]) -> None:
    has_model = guard.model is not None and bool(guard.model.state_dict())
    if has_model == bool(of_model):
        return
    if has_model:
        problem = "the guard has a model, but the state dict was taken without one: load it before attach()"
    else:
        problem = "the state dict holds the weights of a model, but the guard has none: attach() it first"
    raise InputError(problem)


def _require_same_score(guard: Guard, said: Description) -> None:
    stored = PackedDetector.described(said.detector, {})
    own, theirs = to_plain(guard.detector.options()), to_plain(stored.options)
    name = guard.detector.record.name
    if (name, own) != (stored.name, theirs):
        raise InputError(
            f"the state dict is of a guard with the score {stored.name} {theirs}, but this guard has {name} "
            f"{own}: load it into one with the same score and options"
        )


def _rebuilt(guard: Guard, said: Description, tensors: Mapping[str, Tensor]) -> Guard:
    """The guard that the state was taken from; refused unless its tensors are the given ones."""
    copies = {name: value.detach().clone() for name, value in tensors.items() if isinstance(value, Tensor)}
    of_detector = {
        name.removeprefix(_DETECTOR): value for name, value in copies.items() if name.startswith(_DETECTOR)
    }
    with undamaged("the state dict", "take it anew with guard.state_dict()"):
        packed = PackedDetector.described(said.detector, of_detector)
        head = None
        if not said.headless:
            head = Head(copies["head.weight"], copies["head.bias"], unit_features=packed.unit_features)
        restored = type(guard).of_own(
            packed.unpack(),
            read_calibration(said, copies, "calibration.sorted_scores"),
            head,
            class_names=said.class_names,
            provenance=said.provenance,
            false_alarm_rate=said.false_alarm_rate,
            origin=said.origin,
            calibrated=said.calibrated,
        )
        _require_equal(restored.state_dict(), copies)
    return restored


def _require_equal(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> None:
    for name in sorted(expected.keys() | given.keys()):
        if name not in given:
            raise FormatError(f"{name} is missing")
        if name not in expected:
            raise FormatError(f"{name} is not a tensor of this guard")
        one, other = expected[name], given[name]
        if name != _DESCRIPTION and not torch.equal(one.cpu(), other.cpu().to(one.dtype)):
            raise FormatError(f"{name} does not fit the rest")
