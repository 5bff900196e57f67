"""Weights from a file: safetensors, or a torch file read without running what is in it."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from ..core.errors import FormatError, ModelError, TheodoliteWarning
from ..core.files import header_of
from ..reference.head import CLASS_NAMES, Head
from ..reference.unit_features import UNIT_FEATURES, takes_unit_features
from .misread import not_a_file, quantised, unreadable

StateDict = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "module")
_MAX_NAMED = 4
# Not in old checkpoints, and without a meaning for a model that only looks.
_COUNTER = "num_batches_tracked"
# Where a file of ours says what it holds.
_DESCRIBED = "theodolite"


def read_state_dict(path: str | Path) -> StateDict:
    """The tensors of a checkpoint by name, without the wrappings of training scripts.

    A pickle runs code when it is opened; ``weights_only`` admits tensors and plain containers alone.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(not_a_file(path))
    try:
        if path.suffix == ".safetensors":
            loaded: StateDict = load_file(path)
            return loaded
        # Training scripts store their arguments beside the weights; a Namespace is only a record.
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ModelError(unreadable(path, error)) from error
    return _tensors(content, path)


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Fill ``model`` with the weights of a file; every tensor must find its place.

    A prefix that all names share, as the attribute of a training class (``model.``, ``backbone.``), is left
    out if, and only if, every name then has its place.
    """
    weights, own = read_state_dict(path), model.state_dict().keys()
    spellings = list(_spellings(weights))
    for spelling in spellings:
        if _fits(spelling, own):
            fill(model, spelling, str(path))
            return
    _explain_parts(spellings[1], own, str(path))
    # Told by the names that come nearest: what is wrong with the others is the prefix alone.
    fill(model, max(spellings, key=lambda named: len(named.keys() & own)), str(path))


def _spellings(weights: StateDict) -> Iterator[StateDict]:
    """The tensors under their names, without wrappers, and without ever more of the prefix they share."""
    yield weights
    bare = strip_wrappers(weights)
    yield bare
    parts = [key.split(".") for key in bare]
    for depth in range(1, min(map(len, parts), default=0)):
        if len({tuple(key[:depth]) for key in parts}) > 1:
            return
        yield {".".join(key[depth:]): value for key, value in zip(parts, bare.values(), strict=True)}


def _fits(weights: StateDict, own: Collection[str]) -> bool:
    return weights.keys() <= set(own) and all(key in weights or key.endswith(_COUNTER) for key in own)


def _explain_parts(weights: StateDict, own: Collection[str], name: str) -> None:
    """Refuse a file of which only the tensors under one prefix are the model's, and say how to take them."""
    for prefix in dict.fromkeys(key.partition(".")[0] for key in weights):
        below = {
            key.partition(".")[2]: value for key, value in weights.items() if key.startswith(f"{prefix}.")
        }
        if below and _fits(below, own):
            others = [key for key in weights if not key.startswith(f"{prefix}.")]
            raise ModelError(
                f"the weights of {name} fit the model under '{prefix}.', but beside them there are others: "
                f"{_some(others)}. Save the model's alone: torch.save(trained.{prefix}.state_dict(), path)"
            )


def fill(model: nn.Module, weights: StateDict, name: str) -> None:
    """Load a state dict strictly; the error says which tensors are missing, left over or of another shape."""
    own = model.state_dict()
    missing = [key for key in own if key not in weights and not key.endswith(_COUNTER)]
    unexpected = [key for key in weights if key not in own]
    shapes = [
        f"{key} {tuple(weights[key].shape)} instead of {tuple(own[key].shape)}"
        for key in own
        if key in weights and weights[key].shape != own[key].shape
    ]
    problems = [
        f"{title} {_some(keys)}"
        for title, keys in (("missing:", missing), ("unexpected:", unexpected), ("other shape:", shapes))
        if keys
    ]
    if problems:
        remedy = (
            "Use the checkpoint of this architecture and number of classes (?num_classes=… in the spec sets "
            "the latter)"
            if weights.keys() & own.keys()
            else "It has no name in common with the model: it is a checkpoint of another architecture"
        )
        raise ModelError(f"the weights of {name} do not fit the model: {'; '.join(problems)}. {remedy}")
    model.load_state_dict(weights, strict=False)


def probe_head(path: Path, model: str | None = None) -> Head:
    """The head of a file that holds nothing else, linear or cosine.

    ``model`` is the one that it is put on, without options: that of its features is compared, if it says it.
    """
    weights, metadata = linear_weights(path), dict[str, str]()
    if path.suffix == ".safetensors":
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    unit_features = takes_unit_features(read_state_dict(path), metadata, path)
    said = header_of(path)
    if "templates" in said:
        raise ModelError(
            f"{path} holds embedded words (`theodolite embed`), no head: its rows are no classes"
        )
    made_for = said.get("model")
    if model is not None and isinstance(made_for, str) and made_for != model:
        warnings.warn(
            f"{path} was trained on features of {made_for}, and is put on those of {model}: unless both are "
            f"the same weights under two names, its answers mean nothing. Train a head on the features of "
            f"this model (theodolite probe)",
            TheodoliteWarning,
            stacklevel=2,
        )
    return Head(weights["weight"], weights["bias"], unit_features=unit_features)


def probe_names(path: Path) -> tuple[str, ...] | None:
    """The names of the classes of a head in a file, in the order of its rows; None where it has none."""
    if path.suffix != ".safetensors":
        return None
    with safe_open(path, framework="pt") as file:
        said = (file.metadata() or {}).get(_DESCRIBED)
    try:
        described = {} if said is None else json.loads(said)
    except ValueError as error:
        raise FormatError(f"{path} is damaged: its description cannot be read") from error
    names = described.get(CLASS_NAMES) if isinstance(described, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else None


def linear_weights(path: Path) -> StateDict:
    """The linear head of a file that holds nothing else, under whatever prefix."""
    tensors = {key: value for key, value in read_state_dict(path).items() if key != UNIT_FEATURES}
    found = {key.rpartition(".")[2]: value for key, value in tensors.items()}
    if len(tensors) != 2 or set(found) != {"weight", "bias"}:
        raise ModelError(
            f"{path} is not a linear head: expected one weight and one bias, got "
            f"{', '.join(list(tensors)[:4])}"
        )
    return found


def strip_wrappers(weights: Mapping[str, Tensor]) -> StateDict:
    """Names without the `module.` of parallel training and the `_orig_mod.` of compilation."""
    return {re.sub(r"(^|\.)(?:(?:module|_orig_mod)\.)+", r"\1", key): value for key, value in weights.items()}


def _tensors(content: object, path: Path) -> StateDict:
    """Unwrap {'state_dict': …} and its relatives down to the level that holds the tensors."""
    while isinstance(content, Mapping):
        integers = quantised(content, path)
        if integers is not None:
            raise ModelError(integers)
        if content and all(isinstance(value, Tensor) for value in content.values()):
            return dict(content)
        inner = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        content = inner
    raise ModelError(
        f"weights file {path} holds no state dict: expected names and tensors, at the top or under one of "
        f"{', '.join(_WRAPPERS)}. Save it with torch.save(model.state_dict(), path)"
    )


def _some(keys: list[str]) -> str:
    more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    return ", ".join(keys[:_MAX_NAMED]) + more
