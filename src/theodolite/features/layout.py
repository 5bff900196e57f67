"""How pictures lie in memory on their way through a model: channels first (contiguous), or channels last.

Which is faster depends on the model and the machine, so it is measured once, on pictures of the first batch.
The features are the same up to rounding; a model that says otherwise keeps the layout it was written for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .agreement import same_features

CONTIGUOUS, CHANNELS_LAST = "contiguous", "channels last"
FORMATS = {CONTIGUOUS: torch.contiguous_format, CHANNELS_LAST: torch.channels_last}

# The rule: so many pictures in each layout, once to warm up and then so often in turn, of which the fastest
# counts; channels last has to win by the margin. A model that takes fewer seconds than this waits for
# pictures, not for memory. It costs about 48 pictures, so it is left out for fewer samples than it pays for.
_IMAGES, _ROUNDS, _MARGIN, _QUICK = 8, 2, 1.05, 0.02
WORTH_MEASURING = 500


class Choice(NamedTuple):
    """A layout, and why it was chosen."""

    layout: str
    why: str

    def __str__(self) -> str:
        return f"{self.layout} ({self.why})"


def forced(channels_last: bool) -> Choice:
    return Choice(CHANNELS_LAST if channels_last else CONTIGUOUS, "as asked for")


def is_channels_last(model: nn.Module) -> bool:
    """Whether weights of the model came in channels last: whoever made it has chosen."""
    return any(_only_channels_last(weight) for weight in model.parameters())


def lay_out(model: nn.Module, layout: str) -> None:
    """Put the weights of a model into a layout; they stay tensors that can be trained."""
    with torch.inference_mode(False):
        model.to(memory_format=FORMATS[layout])  # type: ignore[call-overload]


def measured(model: nn.Module, run: Callable[[Tensor], Tensor], images: Tensor) -> Choice:
    """The layout in which ``run`` gives the features of images sooner; the model is left in it."""
    shown = images[:_IMAGES]
    try:
        plain, last = (_features(model, run, shown, layout) for layout in FORMATS)
    except RuntimeError:  # a model that asks for `view` of what it is given, and the like
        return _stay(model, "the model does not run in channels last")
    if not same_features(last, plain):
        return _stay(model, "the model gives other features in channels last")
    times: dict[str, list[float]] = {layout: [] for layout in FORMATS}
    for _ in range(_ROUNDS):
        for layout, taken in times.items():
            lay_out(model, layout)
            laid = shown.contiguous(memory_format=FORMATS[layout])
            start = time.perf_counter()
            run(laid)
            taken.append(time.perf_counter() - start)
    if min(times[CONTIGUOUS]) < _QUICK:
        return _stay(model, "the model is quick in either layout")
    ratio = min(times[CONTIGUOUS]) / min(times[CHANNELS_LAST])
    why = f"channels last is {ratio:.2f} × as fast on the first {len(shown)} pictures"
    if ratio < _MARGIN:
        return _stay(model, why)
    lay_out(model, CHANNELS_LAST)
    return Choice(CHANNELS_LAST, why)


def _features(model: nn.Module, run: Callable[[Tensor], Tensor], images: Tensor, layout: str) -> Tensor:
    lay_out(model, layout)
    return run(images.contiguous(memory_format=FORMATS[layout]))


def _stay(model: nn.Module, why: str) -> Choice:
    lay_out(model, CONTIGUOUS)
    return Choice(CONTIGUOUS, why)


def _only_channels_last(weight: Tensor) -> bool:
    return (
        weight.ndim == 4
        and weight.is_contiguous(memory_format=torch.channels_last)
        and not weight.is_contiguous()
    )
