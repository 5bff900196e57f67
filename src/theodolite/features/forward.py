"""A model as it is run over many batches: where, in which layout and precision, compiled or not.

What is not asked for is chosen on the first batch, once, and holds for all that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from ..core.batches import Inputs, mapped, rows_in
from ..core.errors import InputError
from ..core.memory import kept
from .capture import Capture
from .compiling import Compiled
from .layout import (
    CHANNELS_LAST,
    CONTIGUOUS,
    FORMATS,
    WORTH_MEASURING,
    Choice,
    forced,
    is_channels_last,
    lay_out,
    measured,
)
from .run_log import RunLog
from .settings import Running
from .writer import BATCH_SIZE


class Forward:
    """Features of batch after batch; the model is left as it was found.

    ``samples`` are those to come: for a few of them nothing is measured. ``layout`` is what was chosen, known
    after the first batch.
    """

    def __init__(self, capture: Capture, running: Running, *, samples: int) -> None:
        self.capture = capture
        self.running = running
        self.log = running.log or RunLog()
        self.device = next(capture.model.parameters()).device
        self.layout: str | None = None
        self._samples = samples
        self._size = min(running.batch_size or BATCH_SIZE, samples)
        # What hears inner layers, or works with gradients, is not what a compiler was shown.
        plain = not capture.several and capture.score is None
        self._compiled = Compiled(capture, self._size) if running.compile and plain else None
        if running.compile and not plain:
            self.log.compiled = "not compiled: more is asked of the model than its last features"

    @contextmanager
    def ready(self) -> Iterator[None]:
        """While batches come: memory is kept between them on a CPU, and the model is in its layout."""
        own = is_channels_last(self.capture.model)
        with kept() if self.device.type == "cpu" else nullcontext():
            try:
                if self.layout is not None:
                    self._lay_out()
                yield
            finally:
                if self._compiled is not None:
                    self._compiled.close()
                if not own:
                    lay_out(self.capture.model, CONTIGUOUS)

    def __call__(self, inputs: Inputs, *, finite: bool) -> Tensor:
        """Features (n, D) of prepared samples, as plain tensors."""
        try:
            with torch.inference_mode(), self._precision():
                inputs = mapped(inputs, lambda tensor: tensor.to(self.device))
                self._choose(inputs)
                features = self._run(inputs, finite)
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"{rows_in(inputs)} samples at a time are too many for the memory of {self.device}: "
                f"pass a smaller --batch-size"
            ) from error
        features = features if isinstance(features, Tensor) else features[0]
        if self._compiled is not None:
            self.log.compiled = self._compiled.words
        self.log.lap("first pass")
        return features.clone()  # out of inference mode: whoever gets it may write into it

    def _run(self, inputs: Inputs, finite: bool) -> Tensor | tuple[Tensor, Tensor]:
        if not isinstance(inputs, Tensor):
            return self.capture(inputs, finite=finite)
        images = inputs.contiguous(memory_format=FORMATS[self.layout or CONTIGUOUS])
        return (self.capture if self._compiled is None else self._compiled)(images, finite=finite)

    def _choose(self, inputs: Inputs) -> None:
        """The layout, at the first batch."""
        if self.layout is not None:
            return
        if not isinstance(inputs, Tensor) and self._compiled is not None:
            self._compiled = None
            self.log.compiled = "not compiled: the model takes no pictures"
        choice = self._choice(inputs)
        self.layout = choice.layout
        self._lay_out()
        self.log.layout = str(choice)
        self.log.lap("layout")

    def _choice(self, images: Inputs) -> Choice:
        if not isinstance(images, Tensor):
            return Choice(CONTIGUOUS, "the model takes no pictures")
        if self.running.channels_last is not None:
            return forced(self.running.channels_last)
        if is_channels_last(self.capture.model):
            return Choice(CHANNELS_LAST, "as the model is")
        if images.ndim != 4:
            return Choice(CONTIGUOUS, "the model takes no pictures")
        if self._samples < WORTH_MEASURING:
            return Choice(CONTIGUOUS, f"not measured for fewer than {WORTH_MEASURING} samples")
        return measured(self.capture.model, lambda shown: self.capture(shown, finite=False)[0].cpu(), images)

    def _lay_out(self) -> None:
        if self.layout == CHANNELS_LAST:
            lay_out(self.capture.model, CHANNELS_LAST)

    def _precision(self) -> torch.autocast | nullcontext[None]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.running.autocast else nullcontext()
