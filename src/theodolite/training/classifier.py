"""A classifier in training: features and logits with their gradients, and a head that is put in place."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import CaptureError, InputError
from ..features.capture import Capture
from ..features.checked import checked_capture
from ..features.layers import as_rows, live_logits
from ..models import LoadedModel
from ..reference.head import Head


class Classifier:
    """A model whose last linear layer is known: it is found as `Capture` finds it, or named.

    ``classes`` are those of the data, which the head must have one output each for.
    """

    def __init__(
        self, loaded: LoadedModel, device: torch.device, *, classes: int, layer: str | None = None
    ) -> None:
        capture = checked_capture(loaded, layer, device)
        if capture.headless or capture.several:
            raise InputError(f"layer must name the last linear layer alone, got {layer!r}")
        self.model = loaded.model
        self.layer = capture.name
        head = self.model.get_submodule(self.layer)
        if not isinstance(head, nn.Linear | nn.Conv2d):
            raise InputError(
                f"the head {self.layer!r} is a {type(head).__name__}: training needs a linear layer"
            )
        self.head_layer: nn.Linear | nn.Conv2d = head
        self.width = capture.head.width
        if capture.head.classes != classes:
            raise InputError(
                f"the model has {capture.head.classes} classes, but the data has {classes}: build it "
                f"with as many (?num_classes={classes} in the spec, where the source takes it)"
            )

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (N, D) and logits (N, C), in the mode the model is in, for `backward`."""
        heard: list[Tensor] = []

        def listen(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            inputs = args[0] if args else next(iter(named.values()))
            heard.append(as_rows(inputs, self.head_layer))

        hook = self.head_layer.register_forward_pre_hook(listen, with_kwargs=True)
        try:
            logits = live_logits(self.model(images), len(images))
        finally:
            hook.remove()
        if len(heard) != 1 or len(heard[0]) != len(images):
            raise CaptureError(f"layer {self.layer!r} was not called once for each input in training mode")
        return heard[0], logits

    def require_bias(self) -> None:
        """Refuse a head that could not hold the linear one which is trained later."""
        if self.head_layer.bias is None:
            raise InputError(
                f"layer {self.layer!r} has no bias, and a linear head trained on the features has one: "
                f"build the model with a bias in its last layer, or train it with the loss ce"
            )

    def encoder_parameters(self) -> list[nn.Parameter]:
        """All that can be trained but the head."""
        head = {id(parameter) for parameter in self.head_layer.parameters()}
        return [part for part in self.parameters() if id(part) not in head]

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def frozen_features(self, images: Tensor) -> Tensor:
        """Features of a batch as `Capture` gives them: eval mode, no gradients."""
        features, _ = Capture(self.model, layer=self.layer)(images)
        return features

    @torch.no_grad()
    def put_head(self, head: Head) -> None:
        """Give the last layer the weights of a head."""
        assert self.head_layer.bias is not None
        self.head_layer.weight.copy_(head.weight.reshape(self.head_layer.weight.shape))
        self.head_layer.bias.copy_(head.bias)
