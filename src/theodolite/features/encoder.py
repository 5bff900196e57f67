"""An encoder without a head: its output is the feature. What looks like logits is not taken for features.

A network whose output is that of its last linear layer, or whose rows are probabilities, most likely is a
classifier, and its features lie one layer before. Of a projection only the caller can know that it is none.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ..core.arrays import require_finite
from ..core.batches import Inputs, called, rows_in
from ..core.errors import CaptureError, InputError
from .agreement import agree
from .capture import Capture
from .layer_rows import LayerRows
from .layers import Call, head_layers
from .listening import listening, turn, untouched
from .settings import ExtractionSettings

# Stands for the layer of such features: no module can be called so.
OUTPUT = "(output)"
# Rows that sum to one up to so much are probabilities.
_ONE = 1e-3


class OutputCapture(Capture):
    """The output of a model as its features: ``features, _ = OutputCapture(encoder)(images)``.

    On the first batch it is refused if it looks like logits, unless ``force`` says that it is none.
    """

    headless = True

    def __init__(self, model: nn.Module, *, force: bool = False) -> None:
        super().__init__(model)
        self._force = force
        self.width = 0

    @property
    def layer(self) -> str:
        return OUTPUT

    @property
    def name(self) -> str:
        return OUTPUT

    @property
    def rows(self) -> LayerRows | None:
        return None

    @property
    def known(self) -> bool:
        return self._checked

    def __call__(
        self, inputs: Inputs, *, finite: bool = True, run: Callable[..., object] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features (N, D), and no logits, as (N, 0); mode, hooks and gradients stay as they were."""
        layers = {} if self._checked else head_layers(self.model)
        calls: dict[str, Call] = {}
        with turn(self.model), untouched(self.model), listening(layers, calls):
            output = called(self.model if run is None else run, inputs)
        features = _rows(output, rows_in(inputs))
        if finite:
            try:
                require_finite(features, "the model's output")
            except InputError as error:
                raise CaptureError(f"{error} of the batch: check the weights and the pictures") from error
        if not self._checked:
            problem = None if self._force else _looks_like_logits(features, calls)
            if problem is not None:
                raise CaptureError(problem)
            self._checked, self.width = True, features.shape[1]
        return features, features.new_empty(len(features), 0)

    def recorded(self, inputs: Tensor) -> Tensor:
        """Features (N, D) alone, while a graph is recorded."""
        return _rows(self.model(inputs), len(inputs))

    def _require_known(self) -> None:
        raise CaptureError("the model is an encoder without a head: its output is the feature")


def _rows(output: object, rows: int) -> Tensor:
    """The output as (N, D)."""
    if isinstance(output, Tensor) and output.ndim > 1 and output.numel() == rows * output.shape[1]:
        return output.detach().flatten(1)
    told = f"of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
    raise CaptureError(
        f"the model returns {told} for {rows} inputs, expected features ({rows}, D): wrap it in a module "
        f"whose forward returns one row of features an image, and nothing else"
    )


def _looks_like_logits(features: Tensor, calls: dict[str, Call]) -> str | None:
    forced = "If it is the feature all the same, such as a projection: --no-head --force"
    sums = features.double().sum(dim=1)
    if bool((features >= 0).all()) and bool(((sums - 1).abs() < _ONE).all()):
        return (
            f"the output of the model looks like probabilities: its {features.shape[1]} numbers are "
            f"positive and sum to one. A classifier's features lie before its last layer: leave --no-head "
            f"out. {forced}"
        )
    linear = [name for name, call in calls.items() if agree(call.output, features)]
    if linear:
        return (
            f"the output of the model looks like logits: it is that of its linear layer {linear[-1]!r} with "
            f"{features.shape[1]} outputs. A classifier's features are the input of that layer: leave "
            f"--no-head out. {forced}"
        )
    return None


def refuse_with_head(settings: ExtractionSettings) -> None:
    """Refuse what only a model with a head can be asked for."""
    if settings.layer is not None:
        raise InputError(f"--layer {settings.layer} names a head, and --no-head says that there is none")
    if settings.running.compile:
        raise InputError("--compile is for models with a head: leave it out, or --no-head")


def output_width(capture: Capture) -> int:
    """Width of the features that a checked capture gives, with a head or without."""
    return capture.width if isinstance(capture, OutputCapture) else capture.head.width
