"""What layers before the head say: their outputs as rows, pooled where they are maps.

    (N, D)          as it is
    (N, T, D)       mean over the tokens
    (N, C, H, W)    mean over the positions; (N, H, W, C) where the map is square and its last side is another

Averages over all positions: global average pooling. A layer that is called more than once in a forward pass
has no one output, and is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from ..core.batches import Inputs, described
from ..core.errors import CaptureError, did_you_mean

_TOKENS, _MAP = 3, 4


def pooled(output: object, name: str) -> Tensor:
    """A layer's output as rows (N, D); of several outputs the first."""
    values = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(values, Tensor) or not values.is_floating_point() or not 2 <= values.ndim <= _MAP:
        shown = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise CaptureError(
            f"layer {name!r} gives {shown}, of which no features can be made: expected floats (N, D), "
            f"(N, T, D) or (N, C, H, W)"
        )
    values = values.detach()
    if values.ndim == _TOKENS:
        return values.mean(dim=1)
    if values.ndim == _MAP:
        _, first, second, last = values.shape
        return values.mean(dim=(1, 2) if first == second != last else (2, 3))
    return values.clone()  # what follows may write into it


def require_layers(model: nn.Module, names: Sequence[str]) -> None:
    """Refuse names that are no layers of a model."""
    known = [name for name, _ in model.named_modules() if name]
    for name in names:
        if name not in known:
            shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
            raise CaptureError(
                f"layer {name!r} is no layer of the model{did_you_mean(name, known)} It has: {shown}"
            )


def require_unpadded(inputs: Inputs) -> None:
    """Refuse batches that may be filled up: an average over all positions would be one over filling, too."""
    if not isinstance(inputs, Tensor):
        raise CaptureError(
            f"several layers are averaged over all positions, and inputs are {described(inputs)}, of which "
            f"some may be padding: name the head alone, or none"
        )


def require_free(model: nn.Module, names: Sequence[str]) -> None:
    """Refuse names for a score's own numbers that layers of the model have."""
    known = {name for name, _ in model.named_modules()}
    for name in names:
        if name in known or not name or "," in name or ":" in name:
            raise CaptureError(
                f"a score calls its own numbers {name!r}, which is a layer of the model, or no name: choose "
                f"another, without commas and colons"
            )


@contextmanager
def hearing(model: nn.Module, names: Sequence[str], heard: dict[str, Tensor]) -> Iterator[None]:
    """Write down what each layer says in one forward pass of this thread."""
    here, counts = threading.get_ident(), dict.fromkeys(names, 0)

    def listener(name: str) -> Any:
        def listen(_: nn.Module, __: object, output: object) -> None:
            if threading.get_ident() == here:
                counts[name] += 1
                heard[name] = pooled(output, name)

        return listen

    hooks = [model.get_submodule(name).register_forward_hook(listener(name)) for name in names]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    for name, count in counts.items():
        if count != 1:
            raise CaptureError(
                f"layer {name!r} is called {count} times in a forward pass, so that it has no one output: "
                f"name a layer that is used once"
            )
