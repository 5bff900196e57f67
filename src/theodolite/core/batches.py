"""A batch as a model takes it: one tensor, several in order, or several by name; also one within the other.

    tensor                        model(tensor)
    (waveforms, lengths)          model(waveforms, lengths)           a tuple or list: arguments in order
    {"input_ids": …, "mask": …}   model(input_ids=…, mask=…)          a mapping: arguments by name

Arguments may themselves be tuples, lists and mappings. A model whose one argument is a mapping or a tuple
takes it as ``(mapping,)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import torch
from torch import Tensor

from .errors import InputError

Inputs: TypeAlias = "Tensor | Mapping[str, Inputs] | Sequence[Inputs]"


def is_batch(value: object) -> TypeGuard[Inputs]:
    """Whether a value is a tensor, or tuples, lists and mappings around tensors: it is prepared."""
    return isinstance(value, Tensor) or (
        isinstance(value, Mapping | tuple | list) and next(_leaves(value), None) is not None
    )


def called(run: Callable[..., object], inputs: Inputs) -> object:
    """What a model, or whatever runs it, says of a batch."""
    if isinstance(inputs, Tensor):
        return run(inputs)
    return run(**inputs) if isinstance(inputs, Mapping) else run(*inputs)


def rows_in(inputs: Inputs) -> int:
    """Samples of a batch: the rows of its first tensor."""
    first = next(_leaves(inputs), None)
    if first is None or first.ndim == 0:
        raise InputError(f"inputs are {described(inputs)}, expected a batch: tensors with a row a sample")
    return len(first)


def mapped(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """The batch with each of its tensors changed; what is no tensor stays as it is."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: mapped(value, change) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(mapped(value, change) for value in inputs)
    return inputs


def moved(inputs: Inputs, home: Tensor) -> Inputs:
    """The batch where a model is, floating-point numbers in its precision."""

    def move(tensor: Tensor) -> Tensor:
        return tensor.to(home.device, home.dtype if tensor.is_floating_point() else tensor.dtype)

    return mapped(inputs, move)


def stacked(samples: Sequence[object]) -> Inputs:
    """One batch of samples that are alike: tensors of one shape, or mappings and tuples of such."""
    first = samples[0]
    if isinstance(first, Mapping):
        if any(not isinstance(one, Mapping) or one.keys() != first.keys() for one in samples):
            raise InputError("samples of one batch have different names: each must have what the first has")
        return {name: stacked([one[name] for one in samples if isinstance(one, Mapping)]) for name in first}
    if isinstance(first, tuple | list):
        if any(not isinstance(one, tuple | list) or len(one) != len(first) for one in samples):
            raise InputError("samples of one batch have different numbers of parts")
        parts = [one for one in samples if isinstance(one, tuple | list)]
        return tuple(stacked([one[place] for one in parts]) for place in range(len(first)))
    tensors = [one for one in samples if isinstance(one, Tensor)]
    if len(tensors) < len(samples):
        raise InputError(
            f"the preprocessing gives a {type(first).__name__}, expected a tensor, or tuples and mappings of "
            f"tensors"
        )
    shapes = sorted({tuple(one.shape) for one in tensors})
    if len(shapes) > 1:
        raise InputError(
            f"samples of one batch have different shapes after preprocessing: {shapes}. Remedy: bring them "
            f"to one shape there, or give the model a `collate` that fills them up"
        )
    return torch.stack(tensors)


def described(value: object) -> str:
    """What a batch is made of, in words: ``a mapping of input_ids (8, 12), attention_mask (8, 12)``."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return (
            f"a mapping of {', '.join(f'{name} {_shape(one)}' for name, one in value.items()) or 'nothing'}"
        )
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {', '.join(map(_shape, value)) or 'nothing'}"
    return f"a {type(value).__name__}"


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def _leaves(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _leaves(one)
