"""ODIN from its definition, in float64 and without automatic gradients: central differences by pixel."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

_STEP = 1e-5


def log_confidence(model: nn.Module, images: Tensor, temperature: float) -> Tensor:
    """log max_c softmax_c(f(x)/T) of every image."""
    with torch.no_grad():
        return torch.log_softmax(model(images) / temperature, dim=1).amax(dim=1)


def nudged_straight(model: nn.Module, images: Tensor, temperature: float, noise: float) -> Tensor:
    """x − ε·sign(−∇_x log S_p(x; T)), float64."""
    exact = copy.deepcopy(model).double().eval()
    shown = images.double()
    gradient = torch.zeros_like(shown)
    for place in range(shown[0].numel()):
        step = torch.zeros(shown[0].numel(), dtype=torch.float64)
        step[place] = _STEP
        step = step.reshape(shown[0].shape)
        above, below = (log_confidence(exact, shown + sign * step, temperature) for sign in (1, -1))
        gradient.flatten(1)[:, place] = (above - below) / (2 * _STEP)
    return shown - noise * torch.sign(-gradient)


def odin_straight(model: nn.Module, images: Tensor, temperature: float, noise: float) -> Tensor:
    """max_c softmax_c(f(x̃)/T), float64."""
    exact = copy.deepcopy(model).double().eval()
    return log_confidence(exact, nudged_straight(model, images, temperature, noise), temperature).exp()
