"""ODIN: softmax at high temperature, of an input nudged towards its prediction (Liang et al., ICLR 2018).

    s(x) = max_c softmax_c(f(x̃)/T),   x̃ = x − ε·sign(−∇_x log softmax_p(f(x)/T))

The nudge raises the score of ID inputs more than that of OOD inputs. It happens in `prepare`, before features
are taken; without it the score is a softmax at temperature T.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ._base import Detector
from ._common import in_precision
from ._registry import OnFeatures, register
from .shaping import Shaping


@register(
    "odin",
    title="ODIN",
    paper="Liang et al., Enhancing The Reliability of Out-of-distribution Image Detection, arXiv:1706.02690",
    year=2018,
    formula="max_c softmax_c(f(x̃)/T), x̃ = x + ε·sign(∇ log S_p)",
    # Stored features are those of the pictures as they are: nothing can be nudged any more.
    on_features=OnFeatures({"noise": 0.0}, mark="ε=0"),
)
class ODIN(Detector):
    """temperature: T. noise: ε, in units of the model's (normalised) input."""

    def __init__(
        self, *, temperature: float = 1000.0, noise: float = 0.0014, shaping: Shaping | str | None = None
    ) -> None:
        super().__init__(shaping=shaping)
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        if noise < 0:
            raise InputError(f"noise must not be negative, got {noise}")
        self.temperature = temperature
        self.noise = noise

    def prepare(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """The perturbed inputs. The model is worked in eval mode and left as it was, gradients included."""
        if self.noise == 0:
            return inputs
        modes = {module: module.training for module in model.modules()}
        wanted = {parameter: parameter.requires_grad for parameter in model.parameters()}
        try:
            model.eval()
            # Without this the backward pass would also compute, and store, gradients of the weights.
            for parameter in wanted:
                parameter.requires_grad_(False)
            with torch.inference_mode(mode=False), torch.enable_grad():
                nudged = inputs.detach().clone().requires_grad_(True)
                logits = model(nudged) / self.temperature
                own = torch.log_softmax(logits, dim=1).amax(dim=1).sum()
                (gradient,) = torch.autograd.grad(own, nudged)
        finally:
            for parameter, flag in wanted.items():
                parameter.requires_grad_(flag)
            for module, training in modes.items():
                module.training = training
        return inputs.detach() + self.noise * gradient.sign()

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        # At T = 1000 the probabilities differ in their last float32 digits only.
        scaled = in_precision(logits, torch.float64) / self.temperature
        return (scaled.amax(dim=1) - torch.logsumexp(scaled, dim=1)).exp().to(features.dtype)
