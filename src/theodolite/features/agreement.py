"""Whether head(features) are the model's logits, and if not, why not and what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.arrays import as_float
from ..reference.head import Head
from .layers import Call

# Rounding of a sum of D products grows like the root of the sum of their squares. So many units of it cover
# the worst entry of a batch: rounded factors in half precision, a different order of summation in the others.
_UNITS_HALF = 8.0
_UNITS = 32.0
_HALF = 1e-4
_SAME_RATIO = 1e-2
# Layers that a message lists.
_NAMED = 6


def agree(output: Tensor, logits: Tensor) -> bool:
    """Whether a layer's output is the logits, up to the rounding of its precision."""
    if output.shape != logits.shape:
        return False
    one, other = _exact(output), _exact(logits)
    return bool(((one - other).abs() <= _rounding(output, logits) * other.abs().max()).all())


def same_features(one: Tensor, other: Tensor) -> bool:
    """Whether two ways through one model give the same rows: half the digits of their precision agree, which
    is far beyond what rounding does in many layers. NaN and infinity must stand at the same places."""
    if one.shape != other.shape or not torch.equal(torch.isfinite(one), torch.isfinite(other)):
        return False
    first, second = (torch.nan_to_num(_exact(rows), posinf=0.0, neginf=0.0) for rows in (one, other))
    return bool(((first - second).norm(dim=1) <= _unit(one, other) ** 0.5 * second.norm(dim=1)).all())


def explain_head(head: Head, call: Call, logits: Tensor, layer: str) -> str | None:
    """None if head(features) equals the logits, else the paragraph that says what differs."""
    if call.features.shape[1] != head.width or logits.shape[1] != head.classes:
        return (
            f"layer {layer!r} maps {head.width} features to {head.classes} classes, but saw features of "
            f"width {call.features.shape[1]} while the model returns {logits.shape[1]} logits: it is not "
            f"the model's head. Leave out the layer's name to have the head found"
        )
    features, given = head.prepare(_exact(call.features)), _exact(logits)
    weight, bias = head.weight.to(features), head.bias.to(features)
    spread = (features.square() @ weight.square().T + bias.square() + given.square()).sqrt()
    error = (head.logits(features) - given).abs()
    if bool((error <= _rounding(call.features, logits, head.weight) * spread).all()):
        return None
    if not agree(call.output, logits):
        return f"the model's logits are not the output of layer {layer!r}: {_after(call.output, logits)}"
    return (
        f"the output of layer {layer!r} is not weight · input + bias (largest difference "
        f"{float(error.max()):.3g} at logits up to {float(logits.abs().max()):.3g}): something acts "
        f"between the captured input and the product, such as a norm of features or weights inside the "
        f"layer. Put the norm into a module of its own before a plain nn.Linear, so that the feature is "
        f"taken after it"
    )


def agree_on_the_class(head: Head, features: Tensor, logits: Tensor) -> bool:
    """Whether the largest logit of every row is what the head gives: O(N·D), for a few rows of every batch.

    Every operation on tensors costs more here than what it does: one number a row is left to Python.
    """
    given, top = as_float(logits).max(dim=1)
    rows = head.prepare(as_float(features))
    products = rows * head.weight.index_select(0, top).to(rows)
    columns = (column.tolist() for column in (products.sum(dim=1), head.bias.index_select(0, top), given))
    found = [
        (abs(total + bias - logit), abs(bias) + abs(logit))
        for total, bias, logit in zip(*columns, strict=True)
    ]
    rounding = _rounding(features, logits, head.weight)
    if all(error <= rounding * size for error, size in found):
        return True
    lengths = torch.linalg.vector_norm(products, dim=1).tolist()
    return all(
        error <= rounding * (length + size) for (error, size), length in zip(found, lengths, strict=True)
    )


def explain_none(calls: dict[str, Call], logits: Tensor) -> str:
    """Why no layer's output is the logits."""
    classes = logits.shape[1]
    near = {name: call.output for name, call in calls.items() if call.output.shape == logits.shape}
    if not near:
        return (
            f"no linear head found: the model returns {classes} logits, but none of its linear layers or "
            f"1×1 convolutions has {classes} outputs. The score needs the last linear layer: use a "
            f"classifier that ends in nn.Linear, or put one in place of the last operation. If the model "
            f"is an encoder, whose output is the feature: `theodolite extract --no-head`, then `probe`"
        )
    if len(near) > 1:
        names = ", ".join(repr(name) for name in list(near)[:_NAMED]) + (", …" if len(near) > _NAMED else "")
        return (
            f"the model has {len(near)} heads with {classes} outputs ({names}), and its logits are the "
            f"output of none of them alone. Wrap it in a module that returns the output of one head; or, if "
            f"it is an encoder whose output is the feature, `theodolite extract --no-head`, then `probe`"
        )
    name, output = next(iter(near.items()))
    return (
        f"the model's logits are not the output of its last linear layer {name!r}: {_after(output, logits)}"
    )


def _after(output: Tensor, logits: Tensor) -> str:
    """What the model seems to do after its linear layer."""
    if output.shape != logits.shape:
        return f"its shape is {tuple(output.shape)}, theirs {tuple(logits.shape)}. Name another layer"
    before, after = _exact(output), _exact(logits)
    for title, function in (("softmax", torch.softmax), ("log-softmax", torch.log_softmax)):
        if agree(function(before, 1).to(logits.dtype), logits):
            return f"a {title} follows it. Remove it, so that the model returns logits"
    ratio = float((after * before).sum() / before.square().sum().clamp_min(1e-300))
    if ratio and float((after - ratio * before).norm()) <= _SAME_RATIO * float(after.norm()):
        return (
            f"they are {ratio:.4g} times it, as by a temperature of {1 / ratio:.4g}. Remove the temperature: "
            f"angles and boundaries are those of the plain logits"
        )
    return (
        "a norm, an activation or another operation follows it, so the decision boundaries are not the "
        "layer's. Wrap the model so that it returns the output of its last linear layer; or, if it is an "
        "encoder whose output is the feature, `theodolite extract --no-head`"
    )


def _exact(values: Tensor) -> Tensor:
    """float64 on the CPU: some devices have none."""
    return values.cpu().double()


def _rounding(*tensors: Tensor) -> float:
    """Rounding to allow, relative to the numbers."""
    unit = _unit(*tensors)
    return unit * (_UNITS_HALF if unit > _HALF else _UNITS)


def _unit(*tensors: Tensor) -> float:
    """One unit of the coarsest precision in play, with autocast."""
    units = [torch.finfo(tensor.dtype).eps for tensor in tensors]
    device = tensors[-1].device.type
    if torch.is_autocast_enabled(device):
        units.append(torch.finfo(torch.get_autocast_dtype(device)).eps)
    if device == "cuda" and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32):
        units.append(2.0**-11)
    return max(units)
