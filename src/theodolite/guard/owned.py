"""A copy of a guard that nobody else holds: what happens to one of them changes nothing for the other."""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import Tensor, nn

from ..core.errors import InputError
from .guard import Guard


def own_copy(guard: Guard) -> Guard:
    """The same guard with parts of its own. The weights of its model are not there twice.

    Moving either of them, or changing its precision, gives it other tensors. Only weights that are written
    over in place, as in training, change in both: they are not the guard's model then, wherever it is.
    """
    shared = (guard.model, guard.loaded, guard._capture)
    copied = copy.deepcopy(guard, {id(part): part for part in shared})
    if guard.model is None:
        return copied
    model = _own_modules(guard.model)
    return copied._take(model, None if guard.loaded is None else replace(guard.loaded, model=model))


def _own_modules(model: nn.Module) -> nn.Module:
    """Modules of one's own around the same numbers in memory."""
    tensors: dict[int, Tensor] = {id(buffer): buffer.detach() for buffer in model.buffers()}
    for weight in model.parameters():
        tensors[id(weight)] = nn.Parameter(weight.detach(), weight.requires_grad)
    try:
        return copy.deepcopy(model, tensors)
    except (TypeError, RuntimeError) as error:
        raise InputError(
            f"the guard's model, a {type(model).__name__}, cannot be copied: {error}. Remedy: leave it to be "
            f"loaded by its name, BatchGuard('guard.safetensors', model='python:my_module:factory'), or pass "
            f"features to a guard without a model"
        ) from error
