"""What a guard can be shown beside features: pictures, and images as its model takes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL.Image import Image
from torch import Tensor, nn

from ..core.errors import InputError
from ..data.sample import plain
from ..models import LoadedModel


def prepared(loaded: LoadedModel | None, pictures: Sequence[Image]) -> Tensor:
    """A batch (N, channels, height, width) of PIL pictures of any mode."""
    if loaded is None:
        raise InputError("the guard cannot prepare pictures yet: attach(load_model(spec)) first")
    if not pictures:
        raise InputError("inputs is an empty list: pass at least one picture")
    for picture in pictures:
        if not hasattr(picture, "convert"):
            raise InputError(
                f"inputs hold a {type(picture).__name__}, expected PIL pictures: Image.open(path)"
            )
    return torch.stack([loaded.preprocess(plain(picture)) for picture in pictures])


def images_for(model: nn.Module | None, images: Tensor, width: int) -> tuple[nn.Module, Tensor]:
    """A model and a batch of images in its precision, on its device; refused without a model or a batch."""
    if images.ndim == 3:
        raise InputError(
            f"inputs have shape {tuple(images.shape)}, expected a batch (N, channels, height, width): "
            f"one image is inputs[None]"
        )
    if model is None:
        raise InputError(
            f"inputs have shape {tuple(images.shape)}: the guard has no model to turn images into "
            f"features; pass features (N, {width}), or attach(load_model(spec)) first"
        )
    home = next(model.parameters(), images)
    dtype = home.dtype if images.is_floating_point() else images.dtype
    return model, images.to(home.device, dtype)
