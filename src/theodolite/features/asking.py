"""What a score may ask of a model beside the features of its inputs: the second contract of scores.

A score that works from features asks for nothing (`model_score` is None). One that does not may change what
the model is shown (`prepare`), or compute numbers of its own from the model and its inputs (`observe`), which
then stand as further columns before the features. Its text, `model_score`, is part of what the features are
called: they are never taken for those of inputs as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from ..core.batches import Inputs, described
from ..core.errors import CaptureError


class AsksModel(Protocol):
    """A score, as far as a model is concerned; every `Detector` is one."""

    @property
    def model_score(self) -> str | None:
        """Names what is asked, options included; None where nothing is."""

    @property
    def observes(self) -> Sequence[str]:
        """What the numbers that `observe` gives are called."""

    def prepare(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """What the model is to be shown instead of ``inputs``."""

    def observe(self, model: nn.Module, inputs: Tensor) -> Mapping[str, Tensor]:
        """Numbers (N, E) of each name in `observes`, of what the model is shown."""


def input_gradient(of: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """∂ Σ of(x) / ∂x at a batch of inputs; of a row alone where ``of`` works row by row, as in eval mode.

    One forward and one backward pass. Gradients are computed for the inputs and for nothing else: parameters
    get none, and keep what they have. It works within `torch.no_grad` and `torch.inference_mode` as well.
    """
    if not inputs.is_floating_point():
        raise CaptureError(f"inputs are of {inputs.dtype}: only floating-point inputs have gradients")
    with torch.inference_mode(mode=False), torch.enable_grad():
        free = inputs.detach().clone().requires_grad_(True)
        values = of(free)
        found = None
        if values.requires_grad:
            (found,) = torch.autograd.grad(values.sum(), free, allow_unused=True)
    if found is None:
        raise CaptureError(
            "no gradient of the model's output reaches its inputs: it computes them within torch.no_grad(), "
            "or detaches them. A score that needs gradients needs a model that lets them through"
        )
    return found


def asked(score: AsksModel | None, model: nn.Module, inputs: Inputs) -> tuple[Inputs, dict[str, Tensor]]:
    """What the model is to be shown, and the numbers (N, E) that a score computes from it, by their names."""
    if score is None:
        return inputs, {}
    if not isinstance(inputs, Tensor):
        raise CaptureError(
            f"{score.model_score} works on inputs that are one tensor, such as images, and here they are "
            f"{described(inputs)}: choose a score of features"
        )
    shown = score.prepare(model, inputs)
    if not isinstance(shown, Tensor) or shown.shape != inputs.shape:
        raise CaptureError(
            f"prepare of {score.model_score} gives {_shape(shown)}, expected inputs of shape "
            f"{tuple(inputs.shape)}, as it was given"
        )
    if not score.observes:
        return shown, {}
    seen = score.observe(model, shown)
    if set(seen) != set(score.observes):
        raise CaptureError(
            f"observe of {score.model_score} gives {', '.join(seen) or 'nothing'}, expected "
            f"{', '.join(score.observes)}, as its `observes` says"
        )
    for name, numbers in seen.items():
        if not isinstance(numbers, Tensor) or numbers.ndim != 2 or len(numbers) != len(inputs):
            raise CaptureError(
                f"observe of {score.model_score} gives {_shape(numbers)} for {name!r}, expected a row of "
                f"numbers for each of {len(inputs)} inputs: ({len(inputs)}, E)"
            )
    return shown, {name: seen[name].detach() for name in score.observes}


def inputs_of(model_score: str | None) -> str:
    """In words, what the model was shown."""
    return "inputs as they are" if model_score is None else f"inputs as {model_score} asks for them"


def _shape(given: object) -> str:
    return f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
