"""A model while somebody listens: whose turn it is, its mode, and what its layers were called with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from .layers import Call, HeadLayer, as_rows

_turns: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_giving_turns = threading.Lock()


def turn(model: nn.Module) -> threading.RLock:
    """The lock of a model, the same for every capture of it."""
    with _giving_turns:
        return _turns.setdefault(model, threading.RLock())


def _modules(model: nn.Module) -> list[nn.Module]:
    """All modules, one that is shared twice: without the names that `nn.Module.modules` makes up for each."""
    found = [model]
    for module in found:
        found += [child for child in module._modules.values() if child is not None]
    return found


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards every module has the mode it had, whatever happened."""
    training = [module for module in _modules(model) if module.training]
    for module in training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def listening(layers: dict[str, HeadLayer], calls: dict[str, Call]) -> Iterator[None]:
    """Write down the last call of each layer in this thread; others may run the model meanwhile."""
    here = threading.get_ident()

    def listener(name: str, layer: HeadLayer) -> Callable[..., None]:
        def listen(_: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
            # A hook that was just removed may be called once more, then without the named arguments.
            *named, output = rest
            if threading.get_ident() != here or not named:
                return
            inputs = args[0] if args else next(iter(named[0].values()), None)
            if isinstance(inputs, Tensor) and isinstance(output, Tensor) and output.ndim > 1:
                calls[name] = Call(as_rows(inputs.detach(), layer), as_rows(output.detach(), layer))

        return listen

    hooks = [
        layer.register_forward_hook(listener(name, layer), with_kwargs=True) for name, layer in layers.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
