"""A model compiled by torch, where there is a compiler: the same features up to rounding, sooner."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..core.errors import TheodoliteWarning
from .agreement import same_features
from .capture import Capture

_SHOWN = 120


class Compiled:
    """The model of a capture, compiled for batches of ``size``; those of other sizes run as they are.

    The head stays outside, where the capture hears it. Whether the compiled model gives the features of the
    plain one is looked at on the first batch.
    """

    def __init__(self, capture: Capture, size: int) -> None:
        self.capture, self.size = capture, size
        self.words = ""
        self._run: Callable[..., object] | None = None
        self._shape: torch.Size | None = None

    def __call__(self, images: Tensor, *, finite: bool) -> Tensor:
        """Features; the first whole batch has the model compiled."""
        if self._shape is None and len(images) == self.size:
            self._shape = images.shape
            return self._first(images, finite)
        run = self._run if images.shape == self._shape else None
        return self.capture(images, finite=finite, run=run)[0]

    def close(self) -> None:
        """Leave the model as it was."""
        if self._run is not None:
            self._head.__dict__.pop("forward", None)
            self._run = self._shape = None

    @property
    def _head(self) -> nn.Module:
        return self.capture.model.get_submodule(self.capture.name)

    def _first(self, images: Tensor, finite: bool) -> Tensor:
        plain, _ = self.capture(images, finite=finite)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what torch cannot trace: the hook at the head
                self._head.forward = torch.compiler.disable(self._head.forward)  # type: ignore[no-untyped-call]
                self._run = torch.compile(self.capture.model, dynamic=False)
                features, _ = self.capture(images, finite=finite, run=self._run)
        # Compilers fail in many ways; what the model itself cannot do has shown above.
        except Exception as error:
            return self._plainly(plain, f"the model could not be compiled ({_said(error)})")
        if not same_features(features, plain):
            return self._plainly(plain, "the compiled model gives other features")
        self.words = f"compiled for batches of {len(images)}"
        return features

    def _plainly(self, features: Tensor, why: str) -> Tensor:
        shape = self._shape
        self.close()
        self._shape, self.words = shape, "not compiled"
        warnings.warn(f"{why}: it runs as it is", TheodoliteWarning, stacklevel=2)
        return features


def _said(error: Exception) -> str:
    """The first line of a compiler's error."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:_SHOWN]}" if lines else type(error).__name__
