"""Weights from a file: safetensors, or a torch file read without running what is in it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..core.errors import ModelError

StateDict = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "module")
_MAX_NAMED = 4


def read_state_dict(path: str | Path) -> StateDict:
    """The tensors of a checkpoint by name, without the wrappings of training scripts.

    A pickle runs code when it is opened; ``weights_only`` admits tensors and plain containers alone.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"weights file {path} does not exist: check the path given as weights")
    try:
        if path.suffix == ".safetensors":
            loaded: StateDict = load_file(path)
            return loaded
        # Training scripts store their arguments beside the weights; a Namespace is only a record.
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise ModelError(
            f"weights file {path} cannot be read ({type(error).__name__}: {reason}). Expected "
            f".safetensors, or a torch file that holds only tensors: save it again with "
            f"torch.save(model.state_dict(), path)"
        ) from error
    return _tensors(content, path)


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Fill ``model`` with the weights of a file; every tensor must find its place."""
    weights = read_state_dict(path)
    if not weights.keys() <= model.state_dict().keys():
        weights = strip_wrappers(weights)
    fill(model, weights, str(path))


def fill(model: nn.Module, weights: StateDict, name: str) -> None:
    """Load a state dict strictly; the error says which tensors are missing, left over or of another shape."""
    own = model.state_dict()
    # Counters of batch norms are not in old checkpoints, and do not matter for a model that only looks.
    missing = [key for key in own if key not in weights and not key.endswith("num_batches_tracked")]
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
        raise ModelError(
            f"the weights of {name} do not fit the model: {'; '.join(problems)}. Use the checkpoint of this "
            f"architecture and number of classes (?num_classes=… in the spec sets the latter)"
        )
    model.load_state_dict(weights, strict=False)


def linear_weights(path: Path) -> StateDict:
    """The linear head of a file that holds nothing else, under whatever prefix."""
    tensors = read_state_dict(path)
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
