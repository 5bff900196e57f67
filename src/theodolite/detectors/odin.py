"""ODIN: softmax at high temperature, of an input nudged towards its prediction (Liang et al., ICLR 2018).

    s(x) = max_c softmax_c(f(x̃)/T),   x̃ = x − ε·sign(−∇_x log softmax_p(f(x)/T))

The nudge raises the score of ID inputs more than that of OOD inputs. ε is in units of the model's own input,
after its preprocessing has normalised it. It happens in `prepare`, before features are taken; where only
features are at hand it cannot, and the score is a softmax at temperature T (ε = 0).

Where it fails: without the nudge it is nearly MaxLogit; with it, ε is a setting that the authors choose with
OOD data at hand.

Cost for N rows, beyond the logits: one pass over N×C; with the nudge one pass of the model backward and one
more forward.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..core.arrays import as_float
from ..core.errors import InputError
from ..features.asking import input_gradient
from ..features.layers import live_logits
from ..features.listening import untouched
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
    """temperature: T. noise: ε, in units of the model's (normalised) input.

    >>> means, labels = 4 * np.eye(3, 8), np.arange(150) % 3
    >>> train = means[labels] + np.random.default_rng(0).normal(size=(150, 8))
    >>> detector = th.ODIN(noise=0).fit(train, labels, head=th.Head(means))
    >>> known, strange = detector.score(np.stack([means[0], np.ones(8)]))
    >>> bool(known > strange)
    True
    """

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

    @property
    def model_score(self) -> str | None:
        """With ε = 0 nothing is nudged, and nothing is asked."""
        return None if self.noise == 0 else super().model_score

    def prepare(self, model: nn.Module, inputs: Tensor) -> Tensor:
        """The perturbed inputs. The model is worked in eval mode and left as it was, gradients included.

        One forward and one backward pass, of the model's own logits: a shaping plays no part in them.
        """
        if self.noise == 0:
            return inputs

        def confidence(shown: Tensor) -> Tensor:
            # T times the logarithm has the same signs, and gradients that half precision can hold.
            logits = as_float(live_logits(model(shown), len(shown))) / self.temperature
            own = torch.log_softmax(logits, dim=1).gather(1, logits.argmax(dim=1, keepdim=True))
            return self.temperature * own

        with untouched(model):
            gradient = input_gradient(confidence, inputs)
        return inputs.detach() + self.noise * gradient.sign()

    def _score(self, features: Tensor, logits: Tensor) -> Tensor:
        # At T = 1000 the probabilities differ in their last float32 digits only.
        scaled = in_precision(logits, torch.float64) / self.temperature
        return (scaled.amax(dim=1) - torch.logsumexp(scaled, dim=1)).exp().to(features.dtype)
