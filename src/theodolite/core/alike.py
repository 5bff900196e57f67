"""Which fitted tensors and modules are the same: those that agree in every bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping

import torch
from torch import Tensor, nn

# Whole numbers of the size of a tensor's entries: compared as these, NaN is itself and -0 is not 0.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_PLAIN = (bool, int, float, str, type(None))


class Untold(Exception):  # noqa: N818 -- not an error: the work is then done as if alone
    """Nobody can tell whether a thing is the same as before."""


class ByContent(ABC):
    """What is wholly determined by tensors of its own."""

    @property
    @abstractmethod
    def content(self) -> tuple[Tensor, ...]:
        """These tensors."""


def counted_writes(tensor: Tensor) -> int:
    """How often a tensor was written to; of an inference tensor PyTorch does not count it."""
    if tensor.is_inference():
        raise Untold
    return tensor._version


class Alike:
    """Tells things by their content: two have the same key only if they agree in every bit.

    A tensor is compared with all of its shape when it is first seen, and again after a write; it is held, so
    that no other takes its place in memory. What cannot be compared is `Untold`.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._first: dict[Hashable, list[tuple[Tensor, int, int]]] = {}  # tensor, its writes, its number
        self._held: list[Tensor] = []

    def key(self, thing: Hashable) -> Hashable:
        """What stands for a fitted thing in a comparison."""
        if isinstance(thing, Tensor):
            return "tensor", self._number(thing)
        if isinstance(thing, nn.Module):
            return "module", self._content(thing)
        if isinstance(thing, ByContent):
            return type(thing), tuple(map(self._number, thing.content))
        return type(thing), thing

    def work(self, work: Callable[..., object]) -> Hashable:
        """What stands for a function, a module that is called, or a module's method."""
        if isinstance(work, nn.Module):
            return "call", self._content(work)
        owner = getattr(work, "__self__", None)
        return (work.__name__, self._content(owner)) if isinstance(owner, nn.Module) else work

    def _content(self, module: nn.Module) -> Hashable:
        """Class, plain attributes and buffers of a module.

        Of one that holds anything else (parameters, other modules, hooks, lists) nobody can tell.
        """
        attributes = {name: value for name, value in vars(module).items() if name not in _OF_EVERY_MODULE}
        inner = (module._parameters, module._modules, module._forward_hooks, module._forward_pre_hooks)
        if any(inner) or not all(isinstance(value, _PLAIN) for value in attributes.values()):
            raise Untold
        typed = frozenset((name, type(value), value) for name, value in attributes.items())
        held: Mapping[str, Tensor | None] = module._buffers
        buffers = frozenset((name, None if one is None else self._number(one)) for name, one in held.items())
        return type(module), module.training, typed, buffers

    def _number(self, tensor: Tensor) -> int:
        writes = counted_writes(tensor)
        place = id(tensor), writes
        if place not in self._numbers:
            kind = tensor.shape, tensor.stride(), tensor.dtype, tensor.device
            first = self._first.setdefault(kind, [])
            unchanged = (known for known in first if counted_writes(known[0]) == known[1])
            number = next((number for other, _, number in unchanged if _same(tensor, other)), None)
            if number is None:
                number = len(self._numbers)
                first.append((tensor, writes, number))
            self._numbers[place] = number
            self._held.append(tensor)
        return self._numbers[place]


def _same(one: Tensor, other: Tensor) -> bool:
    if one is other or not one.is_contiguous() or one.is_complex():
        return one is other
    bits = _BITS[one.element_size()]
    return torch.equal(one.view(bits), other.view(bits))
