"""The layers that can be a head: linear, 1×1 convolution, or a `Head`; what went in and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, nn

from ..core.arrays import require_finite
from ..core.errors import CaptureError, InputError
from ..reference.head import Head

HeadLayer: TypeAlias = nn.Linear | nn.Conv2d | Head


@dataclass(frozen=True)
class Call:
    """One call of a layer, as rows: its input (N, D) and its output (N, C)."""

    features: Tensor
    output: Tensor


def is_head_layer(layer: nn.Module) -> bool:
    """Whether logits = features @ weight.T + bias can be read off this layer."""
    if isinstance(layer, nn.Conv2d):
        return layer.kernel_size == (1, 1) and layer.stride == (1, 1) and layer.groups == 1
    return isinstance(layer, nn.Linear | Head)


def head_layers(model: nn.Module, only: str | None = None) -> dict[str, HeadLayer]:
    """Every layer of the model that can be a head, by its dotted name, in the order of the model.

    With ``only`` that one, without a walk through the model.
    """
    named = model.named_modules() if only is None else [(only, model.get_submodule(only))]
    return {
        name: layer
        for name, layer in named
        if is_head_layer(layer) and isinstance(layer, nn.Linear | nn.Conv2d | Head)
    }


def head_of(layer: HeadLayer, name: str) -> Head:
    """The head that a layer's weights describe."""
    if isinstance(layer, Head):
        return layer
    weight = layer.weight.detach()
    if weight.shape[0] < 2:
        raise CaptureError(
            f"layer {name!r} has one output: a decision boundary needs at least two classes. Give a "
            f"classifier that returns one logit a class"
        )
    bias = None if layer.bias is None else layer.bias.detach()
    return Head(weight.reshape(weight.shape[0], -1), bias)


def as_rows(values: Tensor, layer: HeadLayer) -> Tensor:
    """(N, channels), in memory of its own: what follows may write into the layer's input or output.

    Positions are averaged, which a linear map allows before as well as after it.
    """
    channels = 1 if isinstance(layer, nn.Conv2d) and values.ndim == 4 else values.ndim - 1
    positions = [axis for axis in range(1, values.ndim) if axis != channels]
    return values.mean(dim=positions) if positions else values.clone()


def logits_of(output: object, rows: int, *, finite: bool = True) -> Tensor:
    """The (N, C) logits in whatever a model returns: a tensor, or a record with `logits`.

    They are refused unless they are ``finite``, where that is asked for.
    """
    logits = live_logits(output, rows)
    if not finite:
        return logits.detach()
    try:
        require_finite(logits, "the model's logits")
    except InputError as error:
        raise CaptureError(
            f"{error} of the batch: check the weights, the pictures and the precision"
        ) from error
    return logits.detach()


def live_logits(output: object, rows: int) -> Tensor:
    """The same with their gradients, and whatever numbers they hold."""
    if isinstance(output, Mapping):
        output = output.get("logits", output)
    elif isinstance(output, tuple | list) and len(output) == 1:
        output = output[0]
    else:
        output = getattr(output, "logits", output)
    if isinstance(output, tuple | list):
        raise CaptureError(
            f"the model returns {len(output)} outputs, so there is more than one head: wrap it in a module "
            f"whose forward returns the logits you want to guard, and nothing else"
        )
    if not isinstance(output, Tensor):
        raise CaptureError(
            f"the model returns {type(output).__name__}, not logits: wrap it in a module whose forward "
            f"returns a tensor of shape (N, C)"
        )
    logits = output.flatten(1) if output.ndim > 1 and output.numel() == rows * output.shape[1] else output
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise CaptureError(
            f"the model returns a tensor of shape {tuple(output.shape)} for {rows} inputs, expected "
            f"({rows}, C): give a classifier that returns one row of logits an image"
        )
    return logits
